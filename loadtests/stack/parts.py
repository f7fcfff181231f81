"""One process of ours, started, watched and ended by its process ID."""

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
# Replaced by tests, which fork their programs.
_popen = subprocess.Popen


class PartFailed(Exception):
    """A part did not start; the message holds the end of its log."""


@dataclass(slots=True)
class Part:
    """A process that serves `health` on a port of loopback."""

    name: str
    command: Sequence[str]
    port: int
    health: str
    env: Mapping[str, str]
    log: Path
    metrics_port: int = 0
    """Where it serves `/metrics`; 0: it has none."""
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
        """Start without waiting."""
        # Not the settings of whoever starts it: a part gets what it is given here.
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
        """Wait until its health says so. Raises `PartFailed`."""
        deadline = time.monotonic() + _START_SECONDS
        while not self.is_ready():
            if self.process is None or self.process.poll() is not None or time.monotonic() > deadline:
                raise PartFailed(f"{self.name} is not ready:\n{self.log.read_text()[-3000:]}")
            time.sleep(0.05)

    def is_ready(self) -> bool:
        """What its health answers now."""
        try:
            with urllib.request.urlopen(f"{self.url}{self.health}", timeout=5) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def signal(self, number: int) -> None:
        """Send a signal where it still runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def stop(self) -> int:
        """SIGTERM, and SIGKILL where that does not end it in time; gives its status."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """`kill -9`."""
        self.signal(signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        """Its status once it has ended."""
        if self.process is None:
            return 0
        try:
            return self.process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
