"""A running `pharos up`, and the applications that tests deploy with it."""

import http.client
import itertools
import json
import os
import secrets
import signal
import sqlite3
from collections.abc import Container, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deployer.processes.marks import find_marked
from tests.support.engines import free_port
from tests.support.platform_process import PlatformProcess, Response, platform_process
from tests.support.repositories import Repository
from tests.support.waits import wait_until

FINAL_STATUSES = ("succeeded", "failed", "canceled", "rejected")
_LOOK_SECONDS = 0.1
_UIDS_PER_DEPLOYER = 1000


@dataclass(frozen=True)
class FinishedDeployment:
    """A finished deployment with its log."""

    number: int
    status: str
    texts: list[str]

    @property
    def last(self) -> str:
        return self.texts[-1]

    def __str__(self) -> str:
        return f"{self.status}:\n" + "\n".join(self.texts)


class Installation:
    """A running installation, used through its API and by commands."""

    def __init__(self, platform: PlatformProcess, apps_port: int) -> None:
        self.platform = platform
        self.apps_port = apps_port
        self.outputs: list[str] = []
        """All responses of the API and outputs of commands, in order."""

    @property
    def folder(self) -> Path:
        """The deployer's folder."""
        return self.platform.data / "deployer"

    def call(self, method: str, path: str, body: Any = None) -> Response:
        """Call the API with the first account's token."""
        headers = {"Authorization": f"Bearer {self.platform.credentials['api_token']}"}
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        answer = self.platform.request(method, f"/api/v1/{path}", body=data, headers=headers)
        self.outputs.append(json.dumps(answer.json, ensure_ascii=False))
        return answer

    def run_json(self, *command: str, stdin: str | None = None) -> Any:
        """Run a command; return the document that it prints with `--json`."""
        done = self.platform.run(*command, "--json", stdin=stdin)
        self.outputs += [done.stdout, done.stderr]
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def rows(self, sql: str, *values: Any) -> list[Any]:
        """Return rows of the control plane's database."""
        with closing(sqlite3.connect(self.platform.data / "control.sqlite", timeout=30)) as database:
            return database.execute(sql, values).fetchall()

    def create_app(self, name: str, repository: Repository) -> "App":
        """Create a project with one environment that is deployed from this repository."""
        project = self.run_json("project", "create", name)["slug"]
        created = self.run_json(
            "environment", "create", "Production", "--type", "production", "--project", project
        )
        self.run_json("repository", "connect", str(repository.path), "--project", project)
        return App(self, project, created["id"], created["number"], repository)

    def start(self) -> None:
        """Start the platform on its former ports."""
        self.platform.start("--apps-port", str(self.apps_port))

    def restart(self) -> None:
        """Stop the platform in an orderly way, and start it."""
        assert self.platform.stop() == 0
        self.start()

    def is_ready(self) -> bool:
        """Return whether the readiness route returns 200."""
        return self.platform.request("GET", "/health/ready").status == 200


@dataclass(frozen=True)
class App:
    """A project's environment "production"."""

    installation: Installation
    project: str
    id: str
    number: int
    repository: Repository

    @property
    def name(self) -> str:
        """The environment's name as an argument of commands."""
        return f"{self.project}/production"

    @property
    def host(self) -> str:
        return f"production.{self.project}.localhost"

    def set_variables(self, dotenv: str) -> None:
        """Replace all variables of the environment."""
        answer = self.installation.call("PUT", f"environments/{self.id}/variables", {"variables": dotenv})
        assert answer.status == 200, answer.json

    def deploy(self, ref: str | None = None) -> int:
        """Request a deployment; return its number."""
        answer = self.installation.call(
            "POST", f"environments/{self.id}/deploy", None if ref is None else {"ref": ref}
        )
        assert answer.status == 202, answer.json
        number: int = answer.json["data"]["id"]
        return number

    def status(self, deployment: int) -> str:
        status: str = self.installation.call("GET", f"deployments/{deployment}").json["data"]["status"]
        return status

    def texts(self, deployment: int) -> list[str]:
        """Return all lines of a deployment's log, including those that the API no longer shows."""
        rows = self.installation.rows(
            "SELECT text FROM deployment_lines WHERE deployment_id = ? ORDER BY id", deployment
        )
        return [text for (text,) in rows]

    def wait_finished(self, deployment: int, seconds: float = 120) -> FinishedDeployment:
        """Wait until a deployment has a final status."""
        wait_until(
            lambda: self.status(deployment) in FINAL_STATUSES, seconds, lambda: self.texts(deployment)[-20:]
        )
        return FinishedDeployment(deployment, self.status(deployment), self.texts(deployment))

    def deploy_and_wait(self, ref: str | None = None, seconds: float = 120) -> FinishedDeployment:
        """Deploy, and wait until the deployment has a final status."""
        return self.wait_finished(self.deploy(ref), seconds)

    def deploy_live(self, ref: str | None = None) -> FinishedDeployment:
        """Deploy; the deployment must succeed."""
        done = self.deploy_and_wait(ref)
        assert done.status == "succeeded", done
        return done

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Send a request to the application; return status and body."""
        with closing(
            http.client.HTTPConnection("127.0.0.1", self.installation.apps_port, timeout=60)
        ) as connection:
            connection.request(method, path, body, {"Host": self.host, **(headers or {})})
            with connection.getresponse() as response:
                return response.status, response.read()

    def get(self, path: str = "/") -> tuple[int, str]:
        status, body = self.request("GET", path)
        return status, body.decode()

    def is_up(self) -> bool:
        """Return whether GET / returns 200. `pharos up` is ready before it listens for applications."""
        try:
            return self.get()[0] == 200
        except ConnectionRefusedError:
            return False

    def instances(self) -> list[dict[str, Any]]:
        """Return the environment's instances as `pharos ps` shows them."""
        (environment,) = self.installation.run_json("ps", self.name)
        instances: list[dict[str, Any]] = environment["instances"]
        return instances

    @property
    def first_uid(self) -> int:
        """The user ID of builds; processes run as the next one."""
        identity = json.loads((self.installation.folder / "identity.json").read_text())
        return int(identity["first_uid"]) + 2 * self.number

    def builders(self) -> list[int]:
        """Return the process IDs of the user of builds."""
        return find_processes({self.first_uid})

    def runners(self) -> list[int]:
        """Return the process IDs of the user that the application runs as."""
        return find_processes({self.first_uid + 1})

    @property
    def home(self) -> Path:
        """The folder with the HOME of builds and of processes."""
        return self.installation.folder / "homes" / self.id

    @property
    def outputs(self) -> Path:
        """The folder of the processes' output, with a folder for each deployment."""
        return self.installation.folder / "outputs" / self.id

    def artefacts(self) -> set[str]:
        """Return the names of the artefact folders of all environments."""
        return set(os.listdir(self.installation.folder / "artefacts"))


def find_processes(uids: Container[int], *, with_ended: bool = False) -> list[int]:
    """Return the process IDs of these users; `with_ended` includes zombies."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            status = dict(
                line.split(":", 1) for line in Path(f"/proc/{name}/status").read_text().splitlines()
            )
        except (FileNotFoundError, ProcessLookupError):
            continue
        is_ended = status["State"].split()[0] in "ZX"
        if int(status["Uid"].split()[0]) in uids and (with_ended or not is_ended):
            found.append(int(name))
    return found


@contextmanager
def running_installation(folder: Path, **settings: str) -> Iterator[Installation]:
    """Yield a started installation; stop it and its applications at the end."""
    apps_port = free_port()
    env = {"PHAROS_DEPLOY_DRAIN_SECONDS": "2", **settings}
    mark = _give_identity(folder / "data" / "deployer")
    with platform_process(folder / "data", "--apps-port", str(apps_port), env=env) as platform:
        installation = Installation(platform, apps_port)
        try:
            yield installation
        finally:
            platform.stop()
            _end_left_over(mark)


def _give_identity(folder: Path) -> str:
    """Give the deployer a range of users that no other deployer of this machine draws; return the prefix of its marks.

    Deployed programs kill every process that their user may kill, and other tests run at the same time.
    """
    first = next(
        first
        for first in iter(_draw_uids, None)
        if not find_processes(range(first, first + _UIDS_PER_DEPLOYER))
    )
    identity = {"id": f"dpl_{secrets.token_hex(8)}", "first_uid": first}
    folder.parent.mkdir(mode=0o700)
    folder.mkdir()
    (folder / "identity.json").write_text(json.dumps(identity))
    return f"{identity['id']}/"


def _draw_uids() -> int:
    # Deployers draw from 100 million up to 2,000 million.
    return secrets.choice(range(2_000_000_000, 2_147_000_000, _UIDS_PER_DEPLOYER))


def _end_left_over(mark: str) -> None:
    """Kill the processes that a broken deployer has left running. Raises `AssertionError` if there were any.

    Only the mark identifies them: another deployer may use the same user IDs.
    """
    left = find_marked(mark)
    for process in itertools.chain.from_iterable(left.values()):
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    assert left == {}, "processes were left behind"
