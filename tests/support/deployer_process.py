"""A real deployer in a separate process, on a test's database and repositories, which tests kill and inspect."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from deployer.identity import USERS_PER_RANGE
from deployer.processes.marks import MarkedProcess, end_marked, find_marked
from tests.support import fork_server
from tests.support.commands import CLEAN_ENVIRONMENT
from tests.support.engines import free_port

_ROOT = Path(__file__).parents[2]
_PORTS = range(20_000, 32_000)


class DeployerProcess:
    """`tests.faults.killable_deployer` on a folder and a port. It can be started and killed any number of times."""

    def __init__(
        self, folder: Path, database: str, *more: str, environment: dict[str, str] | None = None
    ) -> None:
        self.folder = folder
        self.port = free_port()
        self._order = folder.with_name(f"{folder.name}.order")
        self._log = folder.with_name(f"{folder.name}.log")
        self._home = folder.with_name(f"{folder.name}.home")
        self._home.mkdir(exist_ok=True)
        self.environment = {**CLEAN_ENVIRONMENT, "HOME": str(self._home), **(environment or {})}
        self._command = [
            *(sys.executable, "-m", "tests.faults.killable_deployer", "--folder", str(folder)),
            *("--database", database, "--port", str(self.port), "--order", str(self._order), *more),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with open(self._log, "ab") as log:
            self._process = fork_server.popen(
                self._command, stdout=log, stderr=log, env=self.environment, cwd=_ROOT
            )

    def kill_at(self, point: str) -> None:
        """Order the deployer to kill itself at this point."""
        self._order.write_text(point)

    async def wait_killed(self, seconds: float = 90) -> None:
        """Wait until the deployer has killed itself; remove the order."""
        assert self._process is not None
        try:
            status = await asyncio.to_thread(self._process.wait, seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"never reached {self._order.read_text()!r}: {self.log_tail()}") from None
        assert status == -signal.SIGKILL, self.log_tail()
        self._order.unlink()

    def kill(self) -> None:
        """`kill -9`, by process ID."""
        if self._process is not None and self._process.poll() is None:
            self.send(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
        self._order.unlink(missing_ok=True)

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def is_stopped(self) -> bool:
        """True if SIGSTOP has stopped the process."""
        assert self._process is not None
        return psutil.Process(self._process.pid).status() == psutil.STATUS_STOPPED

    def log_tail(self) -> str:
        """Return the end of the deployer's log."""
        return self._log.read_text()[-4000:] if self._log.exists() else ""

    @property
    def identity(self) -> dict[str, Any]:
        identity: dict[str, Any] = json.loads((self.folder / "identity.json").read_text())
        return identity

    def marked(self) -> dict[str, list[MarkedProcess]]:
        """Return the marked processes of this deployer, by mark."""
        return find_marked(f"{self.identity['id']}/")

    def strays(self) -> list[str]:
        """Return unmarked processes of the deployer's users, and of programs that it has started as its own user."""
        known = {each.pid for processes in self.marked().values() for each in processes}
        if self._process is not None:
            known.add(self._process.pid)
        first = self.identity["first_uid"]
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                is_own = process.uids().real in range(first, first + USERS_PER_RANGE)
                # Git runs as the user of the tests, in the deployer's own HOME.
                is_helper = not is_own and process.environ().get("HOME") == str(self._home)
                if (is_own or is_helper) and process.pid not in known:
                    found.append(f"{process.pid}: {' '.join(process.cmdline())}")
        return found

    def listeners(self) -> set[int]:
        """Return the instance ports on which the deployer's processes listen."""
        own = {each.pid for processes in self.marked().values() for each in processes}
        return {
            each.laddr.port
            for each in psutil.net_connections("tcp")
            if each.status == psutil.CONN_LISTEN and each.pid in own and each.laddr.port in _PORTS
        }

    def artefacts(self) -> Sequence[str]:
        folder = self.folder / "artefacts"
        return sorted(os.listdir(folder)) if folder.exists() else []

    async def close(self) -> None:
        """Kill the deployer and all processes that it has started."""
        self.kill()
        if (self.folder / "identity.json").exists():
            for stray in self.strays():
                with suppress(ProcessLookupError):
                    os.kill(int(stray.partition(":")[0]), signal.SIGKILL)
            await end_marked(f"{self.identity['id']}/")


@asynccontextmanager
async def deployer_process(
    folder: Path, database: str, *more: str, environment: dict[str, str] | None = None
) -> AsyncIterator[DeployerProcess]:
    """Yield a started deployer; kill it and its processes at the end."""
    process = DeployerProcess(folder, database, *more, environment=environment)
    try:
        process.start()
        yield process
    finally:
        await process.close()
