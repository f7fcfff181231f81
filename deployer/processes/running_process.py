"""Watches and ends a running process that this deployer or an earlier one has started."""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from deployer.processes.children import kill_children, read_started, reap, reap_children
from deployer.processes.marks import end_instance
from deployer.processes.process_table import (
    INIT_PID,
    Marks,
    Process,
    find_related,
    read_namespace_pids,
    read_process,
    read_uid,
    send_signal,
)
from deployer.processes.threads import run_in_thread

_POLL_SECONDS = 0.1


class RunningProcess:
    """A process that leads a session of its own. Created by `start_process` and `adopt_process`, in a running loop.

    Until `wait_started` returns, `pid` is the launcher's: in a PID namespace, the command is another process.
    """

    def __init__(
        self, pid: int, mark: str, uid: int, descriptor: int, started_ticks: int, report: int | None = None
    ) -> None:
        """`uid`: the user whose processes may claim the mark. `descriptor`: a pidfd of the process. `report`: the read
        end of the launcher's report pipe. This object closes both."""
        self.pid = pid
        self.mark = mark
        self.uid = uid
        self.started_ticks = started_ticks
        self._descriptor: int | None = descriptor
        self._report = report
        self._reported = b""
        self._is_launched = report is None
        self.fault: str | None = None
        """Why the process was killed at its start, because it could not be watched. The text is a predicate."""
        self._init: int | None = None
        # Pidfds of the launcher and the init, which are children of Pharos too.
        self._helpers: set[int] = set()
        self._helpers_ended = asyncio.Event()
        self._helpers_ended.set()
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int | None] = self._loop.create_future()
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._reaping: asyncio.Task[int | None] | None = None
        # A pidfd becomes readable when its process ends.
        self._loop.add_reader(descriptor, self._on_end)
        if report is None:
            self._started.set_result(None)
        else:
            self._loop.add_reader(report, self._on_report)

    @property
    def is_running(self) -> bool:
        """Return False once the loop has noticed that the process has ended."""
        return not self._ended.done()

    @property
    def started_at(self) -> datetime:
        """Return the start time in UTC, accurate to a clock tick (10 ms)."""
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - self.started_ticks / os.sysconf("SC_CLK_TCK")
        return datetime.fromtimestamp(time.time() - age, UTC)

    async def wait_started(self) -> None:
        """Wait until the command runs, or could not be started. After that, `pid` is final and `detach` is safe."""
        await asyncio.shield(self._started)

    async def wait(self) -> int | None:
        """Return the exit status, negative for a signal. None if the status is unknown, because the process is not a
        child of Pharos."""
        return await asyncio.shield(self._ended)

    async def end(self, grace_seconds: float) -> None:
        """Send SIGTERM to all processes with the mark, and kill those that still run after the grace period.

        If the process has ended by itself, its remaining processes are killed at once. A cancellation ends the grace
        period, and is raised when no process is left. May be called again. Raises StillRunning.
        """
        try:
            if self.is_running and grace_seconds > 0:
                await self._terminate(self._loop.time() + grace_seconds)
        finally:
            if self._init is not None:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._init, signal.SIGKILL)
            await end_instance(self.mark, self.pid if self.is_running else None, None, self.uid)
        await self.wait()
        await self._helpers_ended.wait()

    def detach(self) -> None:
        """Stop watching the process and let it run, for a deployer that ends before it. `wait` then returns None.

        Call `wait_started` before: the kernel kills an unfinished launcher together with the deployer.
        """
        self._release()
        self._close_report()
        for descriptor in list(self._helpers):
            self._release_helper(descriptor)
        if not self._ended.done():
            self._ended.set_result(None)

    async def _terminate(self, deadline: float) -> None:
        found = await run_in_thread(self._find_processes)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGTERM)
        # Send one SIGTERM to each process: many programs read a second SIGTERM as "end at once".
        send_signal([each for each in found if each.group != self.pid], signal.SIGTERM)
        while (remaining := deadline - self._loop.time()) > 0:
            # A shell may end long before the programs that it started.
            if not self.is_running and not await run_in_thread(self._find_processes):
                return
            await asyncio.wait({self._ended}, timeout=min(remaining, _POLL_SECONDS))
            if not self.is_running:
                await asyncio.sleep(min(remaining, _POLL_SECONDS / 5))

    def _find_processes(self) -> list[Process]:
        """Return all processes with the mark except the init of the PID namespace, which needs no grace period."""
        found = find_related(lambda marks: self.mark in marks, None, None, self.uid)
        return [each for each in found if read_namespace_pids(each.pid)[1:] != (INIT_PID,)]

    def _on_report(self) -> None:
        while self._report is not None:
            try:
                data = os.read(self._report, 4096)
            except BlockingIOError:
                return
            self._reported += data
            if not self._is_launched and b"\n" in self._reported:
                self._is_launched = True
                self._watch_command(read_started(self._reported))
            if not data:
                # All processes have closed the report, so the command has been executed.
                self._close_report()

    def _watch_command(self, started: Sequence[int]) -> None:
        """Watch the command instead of the launcher if they are different processes."""
        if not started:
            return
        launcher, (init, command) = self._descriptor, started
        assert launcher is not None
        opened: list[int] = []
        try:
            for pid in started:
                opened.append(os.pidfd_open(pid))
            seen = read_process(command)
        except OSError as fault:
            for descriptor in opened:
                os.close(descriptor)
            self._kill_unwatched(fault, {self.pid, init, command}, command)
            return
        self._loop.remove_reader(launcher)
        self.pid, (self._init, self._descriptor) = command, opened
        for descriptor in (launcher, self._init):
            self._helpers.add(descriptor)
            self._helpers_ended.clear()
            self._loop.add_reader(descriptor, self._on_helper_end, descriptor)
        if seen is not None:
            self.started_ticks = seen.started_ticks
        self._loop.add_reader(self._descriptor, self._on_end)

    def _kill_unwatched(self, fault: OSError, pids: set[int], command: int) -> None:
        """Kill processes that cannot be watched, for example because no descriptor is left for their pidfds."""
        assert self._descriptor is not None
        self.fault = f"could not be watched: {fault.strerror}"
        self._loop.remove_reader(self._descriptor)
        self.pid = command
        kill_children(pids)
        self._reap_then_finish(pids, None, command)

    def _reap_then_finish(self, pids: Iterable[int], group: int | None, leader: int) -> None:
        self._reaping = self._loop.create_task(reap_children(pids, group, leader), name=f"reap {leader}")
        self._reaping.add_done_callback(self._on_reaped)

    def _on_reaped(self, reaping: "asyncio.Task[int | None]") -> None:
        self._finish(None if reaping.cancelled() else reaping.result())

    def _on_end(self) -> None:
        descriptor = self._descriptor
        if descriptor is None:
            return
        self._on_report()
        if self._descriptor != descriptor:
            return
        if self._reaping is not None:
            return
        if self._is_launched:
            self._finish(reap(os.P_PIDFD, descriptor))
            return
        # The launcher failed, or was killed. Its children are in its process group, and are children of Pharos.
        self._is_launched = True
        self._loop.remove_reader(descriptor)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._reap_then_finish((), self.pid, self.pid)

    def _finish(self, status: int | None) -> None:
        self._release()
        if self._init is None:
            # Only the end of the report is left to read.
            self._close_report()
        elif not self._started.done():
            # The init may start after a short command has ended. Its report must still have a reader then.
            self._started.set_result(None)
        if not self._ended.done():
            self._ended.set_result(status)

    def _on_helper_end(self, descriptor: int) -> None:
        reap(os.P_PIDFD, descriptor)
        self._release_helper(descriptor)

    def _release_helper(self, descriptor: int) -> None:
        if descriptor == self._init:
            self._init = None
            if self._ended.done():
                self._close_report()
        self._loop.remove_reader(descriptor)
        os.close(descriptor)
        self._helpers.discard(descriptor)
        if not self._helpers:
            self._helpers_ended.set()

    def _close_report(self) -> None:
        if self._report is not None:
            self._loop.remove_reader(self._report)
            os.close(self._report)
            self._report = None
            if not self._started.done():
                self._started.set_result(None)

    def _release(self) -> None:
        if self._descriptor is not None:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None


def adopt_process(pid: int, mark: str) -> RunningProcess:
    """Take over a process that an earlier deployer started. Raises ProcessLookupError if no process with this pid and
    mark runs."""
    descriptor = os.pidfd_open(pid)
    try:
        process, uid = read_process(pid), read_uid(pid)
        if process is None or uid is None or mark not in Marks().read(pid):
            raise ProcessLookupError(f"process {pid} is not {mark}")
        return RunningProcess(pid, mark, uid, descriptor, process.started_ticks)
    except BaseException:
        os.close(descriptor)
        raise
