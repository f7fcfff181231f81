"""Plans, reviews and applies a project's configuration on a running platform, over HTTP and by commands."""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.platform_process import PlatformProcess, Response
from tests.support.waits import wait_until

_SECONDS = 120
_ENDED = ("succeeded", "failed", "canceled")


@dataclass
class ConfigurationClient:
    """One project. `outputs` has all HTTP responses and command outputs, in order."""

    platform: PlatformProcess
    project: str
    """The project's ID."""
    outputs: list[str] = field(default_factory=list)

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Response:
        """Call the API with the first account's token; a `body` of bytes is sent unchanged."""
        sent = {"Authorization": f"Bearer {self.platform.credentials['api_token']}"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = None
        if body is not None:
            sent["Content-Type"] = "application/json"
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = self.platform.request(method, f"/api/v1/{path}", body=data, headers=sent)
        self.outputs += [json.dumps(answer.json, ensure_ascii=False), str(answer.headers)]
        return answer

    def configure(self, method: str, path: str, body: Any = None, **headers: str) -> Response:
        """Call a route of the project's configuration."""
        return self.call(method, f"projects/{self.project}/configuration/{path}", body, **headers)

    def plan(self, document: str, **bindings: Any) -> Any:
        """Return the plan of a document."""
        answer = self.configure("POST", "plan", {"document": document, "bindings": bindings})
        assert answer.status == 200, answer.json
        return answer.json["data"]

    def expect_invalid(self, document: str, **bindings: Any) -> Any:
        """Return the problem of a document that is rejected with 422."""
        answer = self.configure("POST", "plan", {"document": document, "bindings": bindings})
        assert answer.status == 422, answer.json
        return answer.json

    def start_run(self, document: str, **bindings: Any) -> int:
        """Review and apply a document; return the number of the configuration run."""
        params = {"document": document, "bindings": bindings}
        review = self.configure("POST", "reviews", params)
        assert review.status == 201, review.json
        applied = self.configure("POST", f"reviews/{review.json['data']['id']}/apply")
        assert applied.status == 200, applied.json
        number: int = applied.json["data"]["id"]
        return number

    def read_run(self, number: int) -> Any:
        """Return the run's current state."""
        answer = self.configure("GET", f"applications/{number}")
        assert answer.status == 200, answer.json
        return answer.json["data"]

    def wait_run(self, number: int) -> Any:
        """Wait until the run has ended; return its final state."""
        wait_until(lambda: self.read_run(number)["status"] in _ENDED, _SECONDS)
        return self.read_run(number)

    def apply(self, document: str, **bindings: Any) -> Any:
        """Apply a document; return the final state of the run, which must succeed and leave nothing to change."""
        ended = self.wait_run(self.start_run(document, **bindings))
        assert ended["status"] == "succeeded", ended
        assert self.plan(document, **bindings)["actions"] == []
        return ended

    def run(self, *command: str, stdin: str | None = None) -> "subprocess.CompletedProcess[str]":
        """Run a `pharos` command."""
        done = self.platform.run(*command, stdin=stdin)
        self.outputs += [done.stdout, done.stderr]
        return done

    def run_json(self, *command: str) -> Any:
        """Return the document that a command prints with `--json`."""
        done = self.run(*command, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def create_configured_project(platform: PlatformProcess, name: str) -> ConfigurationClient:
    """Create an empty project."""
    client = ConfigurationClient(platform, "")
    client.project = client.run_json("project", "create", name)["id"]
    return client


def write_configuration(folder: Path, document: str, bindings: Mapping[str, str]) -> tuple[str, ...]:
    """Write the document and its bindings to files; return the arguments that name them."""
    (folder / "configuration.yaml").write_text(document)
    lines = (f'{name}="{_quote(value)}"\n' for name, value in bindings.items())
    (folder / "bindings").write_text("".join(lines))
    return (str(folder / "configuration.yaml"), "--bind-file", str(folder / "bindings"))


def _quote(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
