"""The second project of the demo: deploys and variables of its production wait for a second person."""

from pathlib import Path

from demo.api_client import ApiClient
from demo.ledger import Ledger
from demo.story.deployments import deploy_and_wait, wait_for_newest
from demo.story.people import client_of
from demo.story.releases import INGRID, Timeline
from demo.story.repositories import WORKSHOP_COMMITS, make_workshop_repository

_NAME, _SLUG = "Workshop", "workshop"
_DOCUMENT = """\
version: 2
project: {name: Workshop}
environments:
  staging:
    type: staging
    order: 2
    replicas: 1
    variables: {APP_ENV: staging, LABEL_PRINTER: "${printer}"}
    heartbeats:
      count-stock: {cron: "0 5 * * *", timezone: Europe/Oslo, grace: 30m, max_runtime: 1h}
    queues: {labels: {}}
"""


async def set_up_workshop(owner: ApiClient, ledger: Ledger, data: Path, timeline: Timeline) -> None:
    """Make the project with a live release, a deployment and variables that wait, and a configuration run. Each part
    is made once."""
    project, production = await _ensure_project(owner, ledger)
    ingrid = client_of(owner, ledger, INGRID)
    if not ledger.has("workshop repository"):
        path = data / "demo-workshop.git"
        commits = await make_workshop_repository(path, timeline)
        body = {"url": str(path.absolute()), "kind": "git"}
        await owner.post(f"/v1/projects/{project}/repository", body)
        ledger.note("workshop repository", commits)
    commits = ledger.get("workshop repository")
    if not ledger.has("workshop live"):
        await deploy_and_wait(ingrid, production, commits[WORKSHOP_COMMITS[1].version])
        ledger.note("workshop live")
    if not ledger.has("workshop waits"):
        environment = f"/v1/environments/{production}"
        await owner.patch(environment, {"approval": {"deploys": True, "variables": True}})
        await ingrid.post(f"{environment}/deploy", {"ref": commits[WORKSHOP_COMMITS[2].version]})
        await ingrid.patch(f"{environment}/variables", {"set": {"LABEL_PRINTER": "zebra-2"}, "unset": []})
        ledger.note("workshop waits")
    if not ledger.has("configuration"):
        asked = {"document": _DOCUMENT, "bindings": {"printer": "zebra-1"}}
        review = await owner.post(f"/v1/projects/{project}/configuration/reviews", asked)
        await owner.post(f"/v1/projects/{project}/configuration/reviews/{review['id']}/apply")
        # The configuration run creates a queue and a heartbeat in the background; the demo is complete once they exist.
        runs = f"/v1/projects/{project}/configuration/applications"
        await wait_for_newest(owner, runs, lambda status: status != "running")
        ledger.note("configuration")


async def _ensure_project(owner: ApiClient, ledger: Ledger) -> tuple[str, str]:
    """Return the IDs of the project and its production environment; create them if they are missing."""
    if not ledger.has("workshop"):
        found = [each for each in await owner.get("/v1/projects") if each["slug"] == _SLUG]
        project = found[0] if found else await owner.post("/v1/projects", {"name": _NAME, "slug": _SLUG})
        environments = await owner.get(f"/v1/projects/{project['id']}/environments")
        if not environments:
            path = f"/v1/projects/{project['id']}/environments"
            environments = [await owner.post(path, {"name": "Production", "type": "production"})]
        ledger.note("workshop", [project["id"], environments[0]["id"]])
    project_id, production_id = ledger.get("workshop")
    return project_id, production_id
