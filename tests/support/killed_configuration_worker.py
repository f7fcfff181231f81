"""A configuration worker that can be killed and started again any number of times."""

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
_RUN_SECONDS = 120


<class Lives:
    """The process `tests.faults.killable_configuration_worker` and its lives, one after the other."""
========
class RestartedWorker:
<<<<<<< ours
    """`tests.faults.killable_configuration_worker`: one process, which forks a worker for each start."""
>>>>>>>> cbca63ca (tests: rename support modules, fixtures and helpers to standard terms):tests/support/killed_configuration_worker.py

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self._process = process
        self._log = log
        self._pidfd: int | None = None
        """A descriptor of the worker: another process may get its ID may be reused once it has ended."""

    async def start(self, order: str = "") -> None:
        """Start a worker. `order` has it kill itself at a step of an operation (`started 7`, `applied 7`, `published 7`),
        or wait
        after the step is one (`wait 7`)."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{order}\n".encode())
        self._process.stdin.flush()
        number = await self._read()
        with suppress(ProcessLookupError):
            self._pidfd = os.pidfd_open(number)

    def kill(self) -> None:
        """Send SIGKILL to the worker, unless life has ended."""
        if self._pidfd is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    async def wait_ended(self) -> bool:
        """Wait for the worker's end; return True if it was killed, False if nothing was left to do."""
        status = await self._read()
        self._close_pidfd()
        assert status in (0, signal.SIGKILL), f"ended with {status}: {self.log_tail()}"
        return status == signal.SIGKILL

    def _close_pidfd(self) -> None:
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    async def _read(self) -> int:
        assert self._process.stdout is not None
        async with asyncio.timeout(_RUN_SECONDS):
            line = await asyncio.to_thread(self._process.stdout.readline)
        assert line, self.log_tail()
        return int(line)

    def log_tail(self) -> str:
        """Return the end of the log."""
        return self._log.read_text()[-4000:]

    async def close(self) -> None:
        """Kill the worker and the process that forks workers the process."""
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
<) -> AsyncIterator[Lives]:
    """Start the process. `more` contains `--alone` if there is no other worker."""
========
) -> AsyncIterator[RestartedWorker]:
<<<<<<< ours
    """Yield a worker on a database and a key directory. `--alone` in `more`: there is no other worker."""
>>>>>>>> cbca63ca (tests: rename support modules, fixtures and helpers to standard terms):tests/support/killed_configuration_worker.py
    log = folder / "worker.log"
    log.touch()
    with log.open("ab") as output:
        process = fork_server.popen(
            [
                *(sys.executable, "-m", "tests.faults.killable_configuration_worker", "--database", database),
                *("--redis", redis, "--lease-seconds", str(lease_seconds), *more),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            env=CLEAN_ENVIRONMENT,
            cwd=_ROOT,
        )
    worker = RestartedWorker(process, log)
    try:
        yield worker
    finally:
        await worker.close()
