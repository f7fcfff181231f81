"""A process that runs, as a child of ours or of an earlier deployer."""

import asyncio
import contextlib
import os
import signal
import time
from datetime import UTC, datetime

from deployer.processes.marks import end_instance
from deployer.processes.process_table import Marks, Process, find_related, read_process, send_signal

_LOOK_SECONDS = 0.1


class RunningProcess:
    """A process that leads a session of its own. Made by `start_process` and `adopt_process`, in a running loop."""

    def __init__(self, pid: int, mark: str, descriptor: int, started_ticks: int) -> None:
        """`descriptor` is a pidfd of the process, which from now on is this object's to close."""
        self.pid = pid
        self.mark = mark
        self.started_ticks = started_ticks
        self._descriptor: int | None = descriptor
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int | None] = self._loop.create_future()
        # A pidfd becomes readable when its process ends.
        self._loop.add_reader(descriptor, self._on_end)

    @property
    def is_running(self) -> bool:
        """False as soon as the loop has noticed its end."""
        return not self._ended.done()

    @property
    def started_at(self) -> datetime:
        """In UTC, to a clock tick (10 ms)."""
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - self.started_ticks / os.sysconf("SC_CLK_TCK")
        return datetime.fromtimestamp(time.time() - age, UTC)

    async def wait(self) -> int | None:
        """Its exit status, negative for a signal. None: not known, as it was no child of ours."""
        return await asyncio.shield(self._ended)

    async def end(self, grace_seconds: float) -> None:
        """Ask all of it to end (SIGTERM), and kill what has not after the grace, until nothing with its mark is left.

        What it left behind when it ended by itself is killed at once. A cancellation cuts the grace short, and is
        raised when nothing is left. May be called again. Raises StillRunning.
        """
        try:
            if self.is_running and grace_seconds > 0:
                await self._ask(self._loop.time() + grace_seconds)
        finally:
            await end_instance(self.mark, self.pid if self.is_running else None, None)
        await self.wait()

    def forget(self) -> None:
        """Watch it no longer and let it run: for a deployer that ends before what it started. `wait` returns None."""
        self._release()
        if not self._ended.done():
            self._ended.set_result(None)

    async def _ask(self, until: float) -> None:
        found = await asyncio.to_thread(self._find)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGTERM)
        # Once each: to many programs a second SIGTERM says "at once".
        send_signal([each for each in found if each.group != self.pid], signal.SIGTERM)
        while (left := until - self._loop.time()) > 0:
            # A shell may be gone long before the programs that it started.
            if not self.is_running and not await asyncio.to_thread(self._find):
                return
            await asyncio.wait({self._ended}, timeout=min(left, _LOOK_SECONDS))
            if not self.is_running:
                await asyncio.sleep(min(left, _LOOK_SECONDS / 5))

    def _find(self) -> list[Process]:
        return find_related(lambda marks: self.mark in marks, None, None)

    def _on_end(self) -> None:
        descriptor = self._descriptor
        if descriptor is None:
            return
        status = None
        with contextlib.suppress(ChildProcessError):
            result = os.waitid(os.P_PIDFD, descriptor, os.WEXITED)
            if result is not None:
                status = result.si_status if result.si_code == os.CLD_EXITED else -result.si_status
        self._release()
        if not self._ended.done():
            self._ended.set_result(status)

    def _release(self) -> None:
        if self._descriptor is not None:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None


def adopt_process(pid: int, mark: str) -> RunningProcess:
    """Take over a process that an earlier deployer started. Raises ProcessLookupError where none with the mark runs."""
    descriptor = os.pidfd_open(pid)
    process = read_process(pid)
    if process is None or mark not in Marks().of(pid):
        os.close(descriptor)
        raise ProcessLookupError(f"process {pid} is not {mark}")
    return RunningProcess(pid, mark, descriptor, process.started_ticks)
