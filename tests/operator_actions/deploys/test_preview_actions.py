"""Previews as an operator handles them: opened, deployed anew, listed, closed; on both databases."""

import asyncio
from typing import Any

import pytest

from control_domain.audit import Actor
from control_domain.previews import operations as previews
from control_domain.previews.operations import find_previews, open_preview
from control_domain.projects.find import DeployTarget
from control_domain.refusals import Refused
from control_domain.sealing import Sealed, SealingKeys
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment
from control_domain.variables.versions import find_newest_variables
from pipeline_contracts.credentials import digest_credential
from tests.support import deployment_rows
from tests.support.managed_project import NOW, ManagedProject


async def _environment(managed: ManagedProject, branch: str) -> Environment:
    async with managed.engines.sessions() as session:
        (environment,) = await find_previews(session, managed.project, branch)
        return environment


async def _values(managed: ManagedProject, environment: Environment) -> dict[str, str]:
    async with managed.engines.sessions() as session:
        present = await find_newest_variables(session, environment)
    assert present is not None
    sealed = Sealed(present.key_id, present.sealed)
    return managed.engines.sealing_keys().open(sealed, environment.public_id)


@pytest.mark.both_databases
async def test_a_branch_gets_an_environment_of_its_own(managed: ManagedProject) -> None:
    told = await managed.act("previews/open", branch="feature/Login")
    assert (told["status"], told["trigger"], told["ref"]) == ("queued", "api", None)
    assert (told["environment"], told["project"]) == ("preview-feature-login", "shop")
    environment = await _environment(managed, "feature/Login")
    assert (environment.name, environment.type) == ("Preview of feature/Login", "preview")
    assert (environment.position, environment.wake_on_request) == (0, True)
    assert (environment.branch, told["environment_id"]) == ("feature/Login", environment.public_id)
    details = {
        "project": managed.project.public_id,
        "name": "Preview of feature/Login",
        "slug": "preview-feature-login",
        "type": "preview",
        "branch": "feature/Login",
    }
    made = ("environment.create", f"environment {environment.public_id}", None, "operator kim", details)
    assert (await managed.read_audit_log())[1] == made
    (listed,) = await managed.act("previews/list", project_id="shop")
    assert listed["id"] == environment.public_id
    assert (listed["branch"], listed["wake_on_request"]) == ("feature/Login", True)
    assert listed["active_deployment"] == {"id": told["id"], "status": "queued", "step": None}


async def test_a_preview_with_variables_of_a_gated_environment_waits_for_approval(
    managed: ManagedProject,
) -> None:
    await managed.act("variables/set", environment_id="production", text="A=1\n")
    await managed.act("previews/open", branch="login")
    await managed.change_environment(deploys_need_approval=True)
    # Queued without the gate: it gets none of the variables without an approval.
    line = await managed.expect_refusal("previews/open", branch="feature", **{"from": "production"})
    assert line.startswith("A second person has to agree to deploys to this environment")
    by = "deployer@acme.example"
    told = await managed.act("previews/open", branch="feature", by=by, **{"from": "production"})
    assert told["status"] == "awaiting_approval"
    # One that is there without a gate gets it together with the variables.
    await managed.act("previews/open", branch="login", by=by, **{"from": "production"})
    assert (await _environment(managed, "login")).deploys_need_approval
    (entry,) = [
        entry for entry in await managed.read_audit_log() if "variables_of" in entry[4] and by == entry[2]
    ][1:]
    assert entry[4]["variables_of"] == "production"


async def test_opening_again_deploys_again(managed: ManagedProject) -> None:
    first = (await managed.act("previews/open", branch="login"))["id"]
    # What is queued takes what the branch has by then.
    assert (await managed.act("previews/open", branch="login"))["id"] == first
    async with managed.engines.sessions() as session, session.begin():
        await deployment_rows.begin_deployment(session, first, NOW)
    line = await managed.expect_refusal("previews/open", branch="login")
    assert line == f"Deployment {first} of this environment is not finished. Wait for it, then ask again."
    async with managed.engines.sessions() as session, session.begin():
        await deployment_rows.complete_deployment(session, first, NOW)
    await managed.act("environments/state", id="preview-login", state="hibernated")
    told = await managed.act("previews/open", branch="login", by="deployer@acme.example")
    assert told["id"] != first
    environment = await _environment(managed, "login")
    assert environment.state == "running"
    assert (await managed.deployment(told["id"])).asked_by_id == managed.people["deployer"].id


async def test_slugs_are_unique_and_short(managed: ManagedProject) -> None:
    branches = ["feature/a", "feature-a", "x" * 120, "x" * 121, "東京", "main"]
    slugs = [(await managed.act("previews/open", branch=branch))["environment"] for branch in branches]
    assert (slugs[0], slugs[-1]) == ("preview-feature-a", "preview-main")
    assert slugs[1].startswith("preview-feature-a-")
    assert len(set(slugs)) == len(branches)
    assert max(map(len, slugs)) == 60
    for branch, slug in zip(branches, slugs, strict=True):
        environment = await _environment(managed, branch)
        assert (environment.slug, len(environment.name) <= 100) == (slug, True)
    # An environment that somebody has made is nobody's preview.
    await managed.act(
        "environments/create", name="Preview of b", type="staging", slug="preview-b", branch="b"
    )
    assert (await managed.act("previews/open", branch="b"))["environment"].startswith("preview-b-")


@pytest.mark.both_databases
async def test_of_many_concurrent_requests_one_creates_the_preview(managed: ManagedProject) -> None:
    told = await asyncio.gather(
        *(managed.act("previews/open", branch="login") for _ in range(4)), return_exceptions=True
    )
    done = [one for one in told if isinstance(one, dict)]
    assert done and len({one["id"] for one in done}) == 1
    refused = [str(one) for one in told if isinstance(one, Refused)]
    assert len(done) + len(refused) == 4
    assert all("try again" in line or "is not finished" in line for line in refused), refused
    assert await managed.count(Environment, Environment.type == "preview") == 1


@pytest.mark.both_databases
async def test_a_preview_created_meanwhile_is_reused(
    managed: ManagedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second one of the branch would never be closed."""
    made = []
    free_slug = previews._free_slug

    async def make_before(*arguments: Any) -> str:
        if not made:
            made.append(None)
            made.append(await managed.act("previews/open", branch="login"))
        return await free_slug(*arguments)

    monkeypatch.setattr(previews, "_free_slug", make_before)
    opened = await managed.act("previews/open", branch="login")
    assert opened["id"] == made[1]["id"]
    assert await managed.count(Environment, Environment.type == "preview") == 1


async def test_a_preview_gets_the_variables_of_another_environment(managed: ManagedProject) -> None:
    await managed.act("variables/set", environment_id="production", text="A=1\nB=two\n")
    await managed.act("previews/open", branch="login", **{"from": "production"})
    environment = await _environment(managed, "login")
    assert await _values(managed, environment) == {"A": "1", "B": "two"}
    actions = [entry[0] for entry in await managed.read_audit_log()]
    assert actions[:3] == ["deployment.queue", "variables.replace", "environment.create"]
    assert "two" not in str(await managed.read_audit_log())
    # Those of then stay until it is told again to copy them.
    await managed.act("variables/set", environment_id="production", text="A=2\n")
    await managed.act("previews/open", branch="login")
    assert await _values(managed, environment) == {"A": "1", "B": "two"}
    await managed.act("previews/open", branch="login", **{"from": "shop/production"})
    assert await _values(managed, environment) == {"A": "2"}


async def test_an_environment_without_variables_copies_none(managed: ManagedProject) -> None:
    await managed.act("previews/open", branch="login", **{"from": "production"})
    assert await _values(managed, await _environment(managed, "login")) == {}


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({"branch": "-x"}, "'-x' is no name of a branch that Git allows; one is main."),
        ({"branch": None}, "'' is no name of a branch"),
        ({"project_id": "nowhere"}, "There is no project nowhere;"),
        ({"from": "nowhere"}, "There is no environment nowhere in the project shop;"),
        ({"by": "viewer@acme.example"}, "viewer@acme.example may not deploy in the project shop"),
    ],
    ids=str,
)
async def test_invalid_previews_are_refused(
    managed: ManagedProject, wanted: dict[str, Any], told: str
) -> None:
    assert told in await managed.expect_refusal("previews/open", **{"branch": "login", **wanted})
    assert await managed.count(Environment, Environment.type == "preview") == 0


async def test_variables_need_the_key_they_are_sealed_with(managed: ManagedProject) -> None:
    await managed.act("variables/set", environment_id="production", text="A=1\n")
    managed.engines = type(managed.engines)(
        managed.engines.sessions, managed.engines.directory, variable_keys=SealingKeys([b"n" * 32])
    )
    line = await managed.expect_refusal("previews/open", branch="login", **{"from": "production"})
    assert "is not among PHAROS_VARIABLES_KEY." in line
    assert await managed.count(Environment, Environment.type == "preview") == 0


@pytest.mark.parametrize("called", ["branch", "slug", "place", "id", "number"])
async def test_closing_cancels_and_removes(managed: ManagedProject, called: str) -> None:
    number = (await managed.act("previews/open", branch="feature/a"))["id"]
    environment = await _environment(managed, "feature/a")
    if called == "id":
        async with managed.engines.sessions() as session, session.begin():
            await deployment_rows.lease_environment(session, environment.id, NOW)
            await deployment_rows.begin_deployment(session, number, NOW)
    key = await managed.objects.add_ingest_key(environment.public_id)
    what = {
        "branch": "feature/a",
        "slug": "preview-feature-a",
        "place": "shop/preview-feature-a",
        "id": environment.public_id,
        "number": str(environment.id),
    }[called]
    told = await managed.act("previews/close", what=what)
    assert told == {
        "id": environment.public_id,
        "slug": "preview-feature-a",
        "branch": "feature/a",
        "project": "shop",
        "removed": {"keys": 1, "heartbeats": 0, "queues": 0, "canceled": 0},
    }
    assert await managed.engines.directory.find(digest_credential(key.secret)) is None
    deployment = await managed.deployment(number)
    assert (deployment.status, deployment.environment_id) == ("canceled", None)
    assert await managed.count(Environment, Environment.type == "preview") == 0
    actions = [entry[0] for entry in await managed.read_audit_log()]
    assert actions[:2] == ["environment.remove", "deployment.cancel"]
    assert await managed.act("previews/list") == []


async def test_closing_is_refused_while_a_deployment_is_past_its_build(managed: ManagedProject) -> None:
    number = (await managed.act("previews/open", branch="login"))["id"]
    await managed.change(Deployment, number, status="running")
    line = await managed.expect_refusal("previews/close", what="login")
    assert line == (
        f"Deployment {number} of shop/preview-login is past its build and is being started: wait until it is finished, "
        "then close the preview."
    )
    await managed.change(Deployment, number, status="succeeded")
    await managed.act("previews/close", what="login")


@pytest.mark.both_databases
async def test_only_previews_are_closed(managed: ManagedProject) -> None:
    await managed.change_environment(branch="main")
    line = await managed.expect_refusal("previews/close", what="production")
    assert line == "shop/production is no preview: `pharos environment remove shop/production` removes it."
    line = await managed.expect_refusal("previews/close", what="main")
    assert line == "There is no preview main; `pharos preview list` shows all."
    async with managed.engines.sessions() as session, session.begin():
        target = await open_preview(session, managed.project, "main", Actor("203.0.113.7"), NOW)
        assert isinstance(target, DeployTarget)
    assert (await managed.act("previews/close", what="main"))["slug"] == "preview-main"
