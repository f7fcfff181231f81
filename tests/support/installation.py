"""A `pharos up` that deploys, and the applications that tests deploy with it."""

import http.client
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
from tests.support.platform_process import Answer, PlatformProcess, platform_process
from tests.support.repositories import Repository
from tests.support.waits import wait_until

FINAL_STATUSES = ("succeeded", "failed", "canceled", "rejected")
_LOOK_SECONDS = 0.1
_UIDS = 1000


@dataclass(frozen=True)
class FinishedDeployment:
    """A deployment at its end, with its log."""

    number: int
    status: str
    texts: list[str]

    @property
    def last(self) -> str:
        return self.texts[-1]

    def __str__(self) -> str:
        return f"{self.status}:\n" + "\n".join(self.texts)


class Installation:
    """An installation, asked over its API and by commands."""

    def __init__(self, platform: PlatformProcess, apps_port: int) -> None:
        self.platform = platform
        self.apps_port = apps_port
        self.answers: list[str] = []
        """All that the API and the commands have answered, in order."""

    @property
    def folder(self) -> Path:
        """Of the deployer."""
        return self.platform.data / "deployer"

    def call(self, method: str, path: str, body: Any = None) -> Answer:
        """A call of the API with the first account's token."""
        headers = {"Authorization": f"Bearer {self.platform.credentials['api_token']}"}
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        answer = self.platform.request(method, f"/api/v1/{path}", body=data, headers=headers)
        self.answers.append(json.dumps(answer.json, ensure_ascii=False))
        return answer

    def run_json(self, *command: str, stdin: str | None = None) -> Any:
        """What a command prints with `--json`."""
        done = self.platform.run(*command, "--json", stdin=stdin)
        self.answers += [done.stdout, done.stderr]
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def rows(self, sql: str, *values: Any) -> list[Any]:
        """Rows of the database."""
        with closing(sqlite3.connect(self.platform.data / "control.sqlite", timeout=30)) as database:
            return database.execute(sql, values).fetchall()

    def create_app(self, name: str, repository: Repository) -> "App":
        """A project with one environment, deployed from this repository."""
        project = self.run_json("project", "create", name)["slug"]
        made = self.run_json(
            "environment", "create", "Production", "--type", "production", "--project", project
        )
        self.run_json("repository", "connect", str(repository.path), "--project", project)
        return App(self, project, made["id"], made["number"], repository)

    def start(self) -> None:
        """Start it, on the ports that it had."""
        self.platform.start("--apps-port", str(self.apps_port))

    def restart(self) -> None:
        """Stop it in order, and start it."""
        assert self.platform.stop() == 0
        self.start()

    def is_ready(self) -> bool:
        """Whether it says so."""
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
        """As commands take it."""
        return f"{self.project}/production"

    @property
    def host(self) -> str:
        return f"production.{self.project}.localhost"

    def set_variables(self, dotenv: str) -> None:
        """All of them."""
        answer = self.installation.call("PUT", f"environments/{self.id}/variables", {"variables": dotenv})
        assert answer.status == 200, answer.json

    def deploy(self, ref: str | None = None) -> int:
        """Ask for a deployment; gives its number."""
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
        """All lines of its log, also those that the API does not show any more."""
        rows = self.installation.rows(
            "SELECT text FROM deployment_lines WHERE deployment_id = ? ORDER BY id", deployment
        )
        return [text for (text,) in rows]

    def wait_finished(self, deployment: int, seconds: float = 120) -> FinishedDeployment:
        """Wait until it is final."""
        wait_until(
            lambda: self.status(deployment) in FINAL_STATUSES, seconds, lambda: self.texts(deployment)[-20:]
        )
        return FinishedDeployment(deployment, self.status(deployment), self.texts(deployment))

    def deploy_and_wait(self, ref: str | None = None, seconds: float = 120) -> FinishedDeployment:
        """Deploy, and wait until it is final."""
        return self.wait_finished(self.deploy(ref), seconds)

    def deploy_live(self, ref: str | None = None) -> FinishedDeployment:
        """Deploy what is meant to succeed."""
        done = self.deploy_and_wait(ref)
        assert done.status == "succeeded", done
        return done

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Status and body of the application's answer."""
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
        """Whether it answers well. `pharos up` says that it is ready before it listens for applications."""
        try:
            return self.get()[0] == 200
        except ConnectionRefusedError:
            return False

    def instances(self) -> list[dict[str, Any]]:
        """Its processes, as `pharos ps` shows them."""
        (shown,) = self.installation.run_json("ps", self.name)
        instances: list[dict[str, Any]] = shown["instances"]
        return instances

    @property
    def first_uid(self) -> int:
        """Of the user that builds; the next one runs."""
        identity = json.loads((self.installation.folder / "identity.json").read_text())
        return int(identity["first_uid"]) + 2 * self.number

    def builders(self) -> list[int]:
        """Processes of the user that builds."""
        return find_processes({self.first_uid})

    def runners(self) -> list[int]:
        """Processes of the user that runs."""
        return find_processes({self.first_uid + 1})

    @property
    def home(self) -> Path:
        """HOME of builds is in it, and of what runs."""
        return self.installation.folder / "homes" / self.id

    @property
    def outputs(self) -> Path:
        """What its processes have printed, a folder a deployment."""
        return self.installation.folder / "outputs" / self.id

    def artefacts(self) -> set[str]:
        """Folders of what was built, of all environments."""
        return set(os.listdir(self.installation.folder / "artefacts"))


def find_processes(uids: Container[int], *, with_ended: bool = False) -> list[int]:
    """Process IDs of these users; `with_ended`: also what is left of those that nobody has asked how they ended."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            describe = dict(
                line.split(":", 1) for line in Path(f"/proc/{name}/status").read_text().splitlines()
            )
        except (FileNotFoundError, ProcessLookupError):
            continue
        is_ended = describe["State"].split()[0] in "ZX"
        if int(describe["Uid"].split()[0]) in uids and (with_ended or not is_ended):
            found.append(int(name))
    return found


@contextmanager
def running_installation(folder: Path, **settings: str) -> Iterator[Installation]:
    """A started installation whose applications are gone at the end, too."""
    apps_port = free_port()
    env = {"PHAROS_DEPLOY_DRAIN_SECONDS": "2", **settings}
    mark = _give_identity(folder / "data" / "deployer")
    with platform_process(folder / "data", "--apps-port", str(apps_port), env=env) as platform:
        made = Installation(platform, apps_port)
        try:
            yield made
        finally:
            platform.stop()
            _end_left_over(mark)


def _give_identity(folder: Path) -> str:
    """Users that no other deployer of this machine draws: what is deployed here kills all that its user may, and other
    tests run beside these. Gives what the marks of its processes begin with."""
    first = next(first for first in iter(_draw_uids, None) if not find_processes(range(first, first + _UIDS)))
    identity = {"id": f"dpl_{secrets.token_hex(8)}", "first_uid": first}
    folder.parent.mkdir(mode=0o700)
    folder.mkdir()
    (folder / "identity.json").write_text(json.dumps(identity))
    return f"{identity['id']}/"


def _draw_uids() -> int:
    # Deployers draw from 100 million up to 2,000 million.
    return secrets.choice(range(2_000_000_000, 2_147_000_000, _UIDS))


def _end_left_over(mark: str) -> None:
    """End what a broken deployer has left running. Raises AssertionError where there was anything.

    By its mark alone, which only its own processes have: a user's number may be another deployer's as well.
    """
    left = find_marked(mark)
    for process in (one for processes in left.values() for one in processes):
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
    assert left == {}, "processes were left behind"
