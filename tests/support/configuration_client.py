"""A project of a running platform as its configuration is planned, reviewed and applied over HTTP and by commands."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.platform_process import Answer, PlatformProcess
from tests.support.waits import wait_until

_SECONDS = 120
_ENDED = ("succeeded", "failed", "canceled")


@dataclass
class ConfigurationClient:
    """A project. `told` is all that it was told, in order: answers over HTTP, output of commands."""

    platform: PlatformProcess
    project: str
    """Its ID."""
    told: list[str] = field(default_factory=list)

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """A call of the API with the first account's token; a `body` that is bytes is sent as it is."""
        sent = {"Authorization": f"Bearer {self.platform.credentials['api_token']}"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = None
        if body is not None:
            sent["Content-Type"] = "application/json"
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = self.platform.request(method, f"/api/v1/{path}", body=data, headers=sent)
        self.told += [json.dumps(answer.json, ensure_ascii=False), str(answer.headers)]
        return answer

    def configure(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """A call of the project's configuration."""
        return self.call(method, f"projects/{self.project}/configuration/{path}", body, **headers)

    def plan(self, document: str, **bindings: Any) -> Any:
        """What is planned."""
        answer = self.configure("POST", "plan", {"document": document, "bindings": bindings})
        assert answer.status == 200, answer.json
        return answer.json["data"]

    def refuse(self, document: str, **bindings: Any) -> Any:
        """The problem of a document that is turned down."""
        answer = self.configure("POST", "plan", {"document": document, "bindings": bindings})
        assert answer.status == 422, answer.json
        return answer.json

    def begin(self, document: str, **bindings: Any) -> int:
        """Have it reviewed and applied; the application's number."""
        wish = {"document": document, "bindings": bindings}
        review = self.configure("POST", "reviews", wish)
        assert review.status == 201, review.json
        applied = self.configure("POST", f"reviews/{review.json['data']['id']}/apply")
        assert applied.status == 200, applied.json
        number: int = applied.json["data"]["id"]
        return number

    def application(self, number: int) -> Any:
        """As it is now."""
        answer = self.configure("GET", f"applications/{number}")
        assert answer.status == 200, answer.json
        return answer.json["data"]

    def end(self, number: int) -> Any:
        """As it is at its end."""
        wait_until(lambda: self.application(number)["status"] in _ENDED, _SECONDS)
        return self.application(number)

    def bring_about(self, document: str, **bindings: Any) -> Any:
        """Apply what is meant to succeed; the application at its end. A plan of the same changes nothing then."""
        ended = self.end(self.begin(document, **bindings))
        assert ended["status"] == "succeeded", ended
        assert self.plan(document, **bindings)["actions"] == []
        return ended

    def run(self, *command: str, stdin: str | None = None) -> "subprocess.CompletedProcess[str]":
        """A command of `pharos`."""
        done = self.platform.run(*command, stdin=stdin)
        self.told += [done.stdout, done.stderr]
        return done

    def run_json(self, *command: str) -> Any:
        """What a command prints with `--json`."""
        done = self.run(*command, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def create_configured_project(platform: PlatformProcess, name: str) -> ConfigurationClient:
    """A project without anything in it."""
    made = ConfigurationClient(platform, "")
    made.project = made.run_json("project", "create", name)["id"]
    return made


def write_configuration(folder: Path, document: str, bindings: Mapping[str, str]) -> tuple[str, ...]:
    """The document and its bindings as files, as commands take them."""
    (folder / "configuration.yaml").write_text(document)
    lines = (f'{name}="{_quote(value)}"\n' for name, value in bindings.items())
    (folder / "bindings").write_text("".join(lines))
    return (str(folder / "configuration.yaml"), "--bind-file", str(folder / "bindings"))


def _quote(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
