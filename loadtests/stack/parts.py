"""A part of the stack: one process that is started, monitored and ended by its process ID."""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PHAROS = Path(sys.executable).with_name("pharos")
_START_SECONDS = 120.0
_END_SECONDS = 90.0
# Tests replace this function to fork their programs.
_popen = subprocess.Popen


class PartFailed(Exception):
    """A part did not start. The message has the end of the part's log."""


@dataclass(slots=True)
class Part:
    """A process that serves `health` on a port of the loopback interface."""

    name: str
    command: Sequence[str]
    port: int
    health: str
    env: Mapping[str, str]
    log: Path
    metrics_port: int = 0
    """The port that serves `/metrics`. 0 if there is none."""
    process: "subprocess.Popen[bytes] | None" = field(default=None)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def metrics_url(self) -> str:
        return f"http://127.0.0.1:{self.metrics_port}"

    def start(self) -> None:
        """Start the process. Do not wait until it is ready."""
        # Leave out the caller's settings: a part gets only the settings that are given here.
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("PHAROS_")}
        with open(self.log, "ab") as log:
            self.process = _popen(
                list(self.command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**inherited, **self.env},
                start_new_session=True,
            )

    def wait_ready(self) -> None:
        """Wait until the health check succeeds. Raises `PartFailed`."""
        deadline = time.monotonic() + _START_SECONDS
        while not self.is_ready():
            if self.process is None or self.process.poll() is not None or time.monotonic() > deadline:
                raise PartFailed(f"{self.name} is not ready:\n{self.log.read_text()[-3000:]}")
            time.sleep(0.05)

    def is_ready(self) -> bool:
        """Return the current result of the health check."""
        try:
            with urllib.request.urlopen(f"{self.url}{self.health}", timeout=5) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def signal(self, number: int) -> None:
        """Send a signal if the process still runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def stop(self) -> int:
        """Send SIGTERM. If the process does not end in time, send SIGKILL. Return its exit status."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self.signal(signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        """Wait until the process has ended, and return its exit status."""
        if self.process is None:
            return 0
        try:
            return self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
