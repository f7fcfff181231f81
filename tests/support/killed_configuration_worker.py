"""A worker that is killed and started again, any number of times: of configuration runs, or of notifications."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.support import fork_server
from tests.support.commands import CLEAN_ENVIRONMENT

_ROOT = Path(__file__).parents[2]
_LIFE_SECONDS = 120


class RestartedWorker:
    """A process such as `tests.faults.killable_configuration_worker`, and its lives, one after the other."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self._process = process
        self._log = log
        self._living: int | None = None
        """A file descriptor of the process: its ID may be reused once it has ended."""

    async def start(self, order: str = "") -> None:
        """Start a life that kills itself at a checkpoint of a step (`started 7`, `applied 7`, `published 7`), or that
        waits once the step is started (`wait 7`)."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{order}\n".encode())
        self._process.stdin.flush()
        number = await self._read()
        with suppress(ProcessLookupError):
            self._living = os.pidfd_open(number)

    def kill(self) -> None:
        """Send SIGKILL, unless the life has ended."""
        if self._living is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._living, signal.SIGKILL)

    async def wait_ended(self) -> bool:
        """Wait for the end of the life; return True if it was killed, False if it finished."""
        status = await self._read()
        self._close_pidfd()
        assert status in (0, signal.SIGKILL), f"ended with {status}: {self.log_tail()}"
        return status == signal.SIGKILL

    def _close_pidfd(self) -> None:
        if self._living is not None:
            os.close(self._living)
            self._living = None

    async def _read(self) -> int:
        assert self._process.stdout is not None
        async with asyncio.timeout(_LIFE_SECONDS):
            line = await asyncio.to_thread(self._process.stdout.readline)
        assert line, self.log_tail()
        return int(line)

    def log_tail(self) -> str:
        """Return the end of the log."""
        return self._log.read_text()[-4000:]

    async def close(self) -> None:
        """Kill the life and end the process."""
        self.kill()
        self._close_pidfd()
        self._process.kill()
        await asyncio.to_thread(self._process.wait)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


@asynccontextmanager
async def restarted_worker(
    folder: Path, database: str, redis: str, *more: str, lease_seconds: float
) -> AsyncIterator[RestartedWorker]:
    """Start the process. `more` contains `--alone` if there is no other worker."""
    module = "tests.faults.killable_configuration_worker"
    more = ("--database", database, "--redis", redis, "--lease-seconds", str(lease_seconds), *more)
    async with restarted_program(folder, module, *more) as lives:
        yield lives


@asynccontextmanager
async def restarted_program(folder: Path, module: str, *arguments: str) -> AsyncIterator[RestartedWorker]:
    """Start a process that runs `tests.support.forked_lives.run_lives`; its log is in the folder."""
    log = folder / "lives.log"
    log.touch()
    with log.open("ab") as output:
        process = fork_server.popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            env=CLEAN_ENVIRONMENT,
            cwd=_ROOT,
        )
    lives = RestartedWorker(process, log)
    try:
        yield lives
    finally:
        await lives.close()
