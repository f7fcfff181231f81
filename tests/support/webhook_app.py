"""An application that webhooks deploy: a repository on disk, and the deliveries that GitHub would send."""

import json
import urllib.error
import urllib.request
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from git_hosts.webhook_events import WebhookSecret
from tests.support.installation import FINAL_STATUSES, App, FinishedDeployment, Installation
from tests.support.repositories import Repository
from tests.support.waits import wait_until
from tests.support.webhooks import NO_COMMIT, WebhookRequest, pull, push, sign

SKIP = "[skip deploy]"
_WORKFLOW = f"""\
version: 1
build: {{steps: [sh build.sh], timeout_seconds: 90}}
processes:
  web: {{command: sh web.sh, health: {{path: /, timeout_seconds: 90}}}}
triggers:
  push: {{main: production}}
  pull_requests: {{from: production}}
  skip: "{SKIP}"
"""
# A folder for each instance: the former release serves until the next one responds.
_WEB = """\
mkdir -p "$HOME/$PORT" && echo "$(cat page) shown=${SHOWN-none} hidden=${HIDDEN-none}" > "$HOME/$PORT/index.html"
exec python3 -u -m http.server --bind 127.0.0.1 --directory "$HOME/$PORT" $PORT
"""
VARIABLES = "SHOWN=to everybody\nHIDDEN=from previews\n"
"""The variables of production; HIDDEN is protected."""


class DeliveryResponse(NamedTuple):
    """The response to a delivery."""

    http_status: int
    body: Any

    @property
    def status(self) -> tuple[int, str]:
        """The HTTP status and the body's status. Fails if the body has more than these and a deployment's number."""
        assert set(self.body) <= {"status", "deployment_id"}, self.body
        return self.http_status, self.body["status"]

    @property
    def deployment(self) -> int:
        number: int = self.body["deployment_id"]
        return number


@dataclass
class WebhookApp:
    """A project whose pushes to `main` deploy production, and whose pull requests deploy previews."""

    app: App
    url: str
    """The URL of the webhook."""
    secret: WebhookSecret
    tips: dict[str, str] = field(default_factory=dict)
    """The last commit of each branch."""

    @property
    def installation(self) -> Installation:
        return self.app.installation

    @property
    def gate(self) -> Path:
        """A paused build continues when this file exists."""
        return self.app.home / "build" / "go"

    def commit(self, page: str, branch: str = "main", *, waits: bool = False) -> tuple[str, str]:
        """Commit a version that serves this page; return the former and the new commit.

        With `waits` its build pauses until the `gate` is open.
        """
        build = 'touch "$HOME/begun"; until [ -e "$HOME/go" ]; do sleep 0.02; done' if waits else "true"
        before = self.tips.get(branch, NO_COMMIT)
        self.tips[branch] = self.app.repository.commit(
            {"page": page, "web.sh": _WEB, "build.sh": build}, branch
        )
        return before, self.tips[branch]

    def push(self, page: str, *, waits: bool = False, message: str = "Sell more") -> DeliveryResponse:
        """Commit a version to `main`, and deliver GitHub's push event."""
        before, after = self.commit(page, waits=waits)
        return self.deliver(push("github", before=before, after=after, message=message))

    def pull(self, action: str, number: int, branch: str) -> DeliveryResponse:
        """Deliver GitHub's event of a pull request for the current commit of this branch."""
        return self.deliver(pull("github", action, number, branch=branch, revision=self.tips[branch]))

    def deliver(self, sent: WebhookRequest, delivery: str | None = None) -> DeliveryResponse:
        """Send a signed request; return the response. Each call is a new delivery unless `delivery` names one."""
        signed = sign("github", self.secret, sent, delivery or str(uuid.uuid4()))
        headers = {"Content-Type": "application/json", **{k: v for k, v in signed.items() if v is not None}}
        request = urllib.request.Request(self.url, data=sent.body, method="POST", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                return DeliveryResponse(reply.status, json.load(reply))
        except urllib.error.HTTPError as error:
            with error:
                return DeliveryResponse(error.code, json.load(error))

    def push_and_wait(self, page: str) -> FinishedDeployment:
        """Push a version, and wait until it is live."""
        response = self.push(page)
        assert response.status == (202, "queued"), response
        done = self.app.wait_finished(response.deployment)
        assert done.status == "succeeded", done
        assert self.page() == page
        return done

    def wait_built(self) -> None:
        """Wait until a build has paused."""
        wait_until((self.gate.with_name("begun")).exists)

    def close_gate(self) -> None:
        """Close the gate for the next build."""
        for file in (self.gate, self.gate.with_name("begun")):
            file.unlink(missing_ok=True)

    def fetch(self, slug: str = "production") -> tuple[int, str]:
        """Send GET / to an environment of the project; return status and body."""
        status, body = self.app.request("GET", "/", headers={"Host": f"{slug}.{self.app.project}.localhost"})
        return status, body.decode().strip()

    def page(self, slug: str = "production") -> str:
        """Return the page that an environment serves."""
        return self.fetch(slug)[1].partition(" shown=")[0]

    def user_ids(self, slug: str) -> range:
        """Return the users that build and run an environment of the project."""
        query = "SELECT e.id FROM environments e JOIN projects p ON p.id = e.project_id WHERE p.slug = ? AND e.slug = ?"
        ((number,),) = self.installation.rows(query, self.app.project, slug)
        first: int = self.app.first_uid + 2 * (number - self.app.number)
        return range(first, first + 2)

    def deployment_numbers(self) -> list[int]:
        """Return the numbers of the project's deployments, the oldest first."""
        rows = self.installation.rows(
            "SELECT d.id FROM deployments d JOIN projects p ON p.id = d.project_id WHERE p.slug = ? ORDER BY d.id",
            self.app.project,
        )
        return [number for (number,) in rows]

    def is_idle(self) -> bool:
        """Return whether no push waits and no deployment is active."""
        waiting = self.installation.rows("SELECT count(*) FROM waiting_pushes")
        return waiting == [(0,)] and all(
            self.app.status(number) in FINAL_STATUSES for number in self.deployment_numbers()
        )


def create_webhook_app(installation: Installation, folder: Path) -> WebhookApp:
    """Connect the first project to an empty repository with a webhook of GitHub."""
    repository = Repository(folder / "app.git")
    project = "my-project"
    connected = installation.run_json(
        *("repository", "connect", str(repository.path), "--kind", "github", "--project", project)
    )
    workflow = folder / "workflow.yaml"
    workflow.write_text(_WORKFLOW)
    installation.run_json("workflow", "set", str(workflow), "--project", project)
    ((number, public_id),) = installation.rows("SELECT id, public_id FROM environments")
    app = App(installation, project, public_id, number, repository)
    app.set_variables(VARIABLES)
    installation.run_json("variables", "protect", app.name, "HIDDEN")
    webhook = connected["webhook"]
    return WebhookApp(app, webhook["url"], WebhookSecret(webhook["secret_kind"], webhook["secret"]))
