"""A real `pharos up` in a separate process."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import fork_server
from tests.support.engines import free_port
from tests.support.store_template import copy_store_template

PHAROS = Path(sys.executable).with_name("pharos")
_ROOT = Path(__file__).parents[2]
_START_SECONDS = 120


@dataclass(slots=True)
class Response:
    """Status, headers and JSON body of a response."""

    status: int
    headers: Mapping[str, str]
    json: Any


class PlatformProcess:
    """`pharos up` (or another program that serves the same) on a data folder and a port."""

    def __init__(
        self, data: Path, *, command: list[str] | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        self.data = data
        self.port = free_port()
        self._command = command or [str(PHAROS), "up"]
        self.metrics_port = free_port()
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PHAROS_")}
        self._env = {
            **inherited,
            "PHAROS_METRICS_LISTEN": f"127.0.0.1:{self.metrics_port}",
            **(env or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None
        self.log = data.with_name(data.name + ".log")

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, *more: str, ready: int = 200) -> None:
        """Start, and wait until the platform is ready: until `/health/ready` responds with the status `ready`."""
        with open(self.log, "ab") as log:
            self._process = fork_server.popen(
                [*self._command, "--data", str(self.data), "--port", str(self.port), *more],
                stdout=log,
                stderr=log,
                env=self._env,
                cwd=_ROOT,
            )
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise AssertionError(
                    f"ended with status {self._process.returncode}: {self.log.read_text()[-3000:]}"
                )
            with suppress(OSError):
                if self.request("GET", "/health/ready").status == ready:
                    return
            time.sleep(0.05)
        raise AssertionError(f"not ready within {_START_SECONDS} s: {self.log.read_text()[-3000:]}")

    def request(
        self, method: str, path: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Response:
        """Send a request. Raises `OSError` if nothing listens."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", data=body, method=method, headers=dict(headers or {})
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return _read_response(response.status, response)
        except urllib.error.HTTPError as error:
            with error:
                return _read_response(error.code, error)

    def ingest(self, batch: Mapping[str, Any]) -> Response:
        """Send one batch with the first environment's key."""
        headers = {
            "Authorization": f"Bearer {self.credentials['ingest_key']}",
            "Content-Type": "application/json",
        }
        return self.request("POST", "/api/v1/ingest", body=json.dumps(batch).encode(), headers=headers)

    def receipt(self, receipt: str) -> Response:
        """Read a receipt with the first environment's key."""
        headers = {"Authorization": f"Bearer {self.credentials['ingest_key']}"}
        return self.request("GET", f"/api/v1/ingest/receipts/{receipt}", headers=headers)

    @property
    def credentials(self) -> dict[str, Any]:
        credentials: dict[str, Any] = json.loads((self.data / "credentials.json").read_text())
        return credentials

    def run(
        self, *arguments: str, stdin: str | None = None, data: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a `pharos` command; `data`: add `--data` with the platform's folder to the arguments."""
        return fork_server.run(
            [str(PHAROS), *arguments, *(("--data", str(self.data)) if data else ())],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=180,
            env=self._env,
        )

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a query by `pharos query`."""
        done = self.run("query", "--json", sql)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def wait_until_consumed(self, seconds: float = 120) -> None:
        """Wait until the consumer has consumed every record of the log."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.metric("pharos_log_bytes") == 0:
                return
            time.sleep(0.1)
        raise AssertionError(f"records are left in the log: {self.log.read_text()[-3000:]}")

    def metric(self, name: str) -> float:
        """Return the sum of a metric over its labels."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.metrics_port}/metrics")
        with urllib.request.urlopen(request, timeout=60) as response:
            lines = response.read().decode().splitlines()
        values = [line.rsplit(" ", 1)[1] for line in lines if line.split("{")[0].split(" ")[0] == name]
        assert values, f"no metric {name}"
        return sum(map(float, values))

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def wait_for_end(self, seconds: float = 120) -> int:
        """Wait for the end of the process without a signal; return its status."""
        assert self._process is not None
        return self._process.wait(seconds)

    def stop(self) -> int:
        """Send SIGTERM, and wait for the end; return the status."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self._process.wait(120)


def _read_response(status: int, response: Any) -> Response:
    body = response.read()
    return Response(status, response.headers, json.loads(body) if body else None)


@contextmanager
def platform_process(
    data: Path, *more: str, command: list[str] | None = None, env: Mapping[str, str] | None = None
) -> Iterator[PlatformProcess]:
    """Yield a started platform, whose column store has the schema before its first start; kill it at the end."""
    process = PlatformProcess(data, command=command, env=env)
    try:
        copy_store_template(data / "clickhouse")
        process.start(*more)
        yield process
    finally:
        if process._process is not None:
            process.kill()
