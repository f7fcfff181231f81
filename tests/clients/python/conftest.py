"""A running platform that the tests of this folder share. Each test uses a separate service or monitor."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.platform_process import PlatformProcess, platform_process
from tests.support.waits import wait_until


@dataclass
class RunningPlatform:
    """A platform, with the requests that tests of the client library need."""

    process: PlatformProcess

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.process.port}"

    @property
    def key(self) -> str:
        """The ingest key of the first environment."""
        key: str = self.process.credentials["ingest_key"]
        return key

    def events(self, service: str, columns: str = "title") -> list[dict[str, Any]]:
        """Return the stored events of a service, in the order of their times."""
        return self.process.query(
            f"SELECT {columns} FROM pharos.telemetry_events WHERE service = '{service}' ORDER BY timestamp"
        )

    def wait_for_events(self, service: str, count: int, columns: str = "title") -> list[dict[str, Any]]:
        """Return the stored events of a service once there are this many."""
        self.process.wait_until_consumed()
        wait_until(lambda: len(self.events(service)) >= count, describe=lambda: self.events(service))
        found = self.events(service, columns)
        assert len(found) == count
        return found

    def get(self, *path: str) -> Any:
        """Return the data of a GET request with the first API token."""
        headers = {"Authorization": f"Bearer {self.process.credentials['api_token']}"}
        response = self.process.request("GET", f"/api/v1/{'/'.join(path)}", headers=headers)
        assert response.status == 200, response.json
        return response.json["data"]

    def run_json(self, *command: str) -> Any:
        """Return the document that a command prints with `--json`."""
        done = self.process.run(*command, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        return json.loads(done.stdout)


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPlatform]:
    with platform_process(tmp_path_factory.mktemp("clients") / ".pharos") as process:
        yield RunningPlatform(process)
