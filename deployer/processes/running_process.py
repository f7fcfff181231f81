"""A process that runs, as a child of ours or of an earlier deployer."""

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
from deployer.processes.threads import in_thread

_LOOK_SECONDS = 0.1


class RunningProcess:
    """A process that leads a session of its own. Made by `start_process` and `adopt_process`, in a running loop.

    `pid` is that of the launcher until `wait_started` returns: in a PID namespace the command is another process.
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
        """Why it was killed at its start: it could not be watched. The end of a sentence."""
        self._init: int | None = None
        # Pidfds of the launcher and the init, children of ours as well.
        self._others: set[int] = set()
        self._others_ended = asyncio.Event()
        self._others_ended.set()
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
        """False as soon as the loop has noticed its end."""
        return not self._ended.done()

    @property
    def started_at(self) -> datetime:
        """In UTC, to a clock tick (10 ms)."""
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - self.started_ticks / os.sysconf("SC_CLK_TCK")
        return datetime.fromtimestamp(time.time() - age, UTC)

    async def wait_started(self) -> None:
        """Wait until the command runs, or could not be started. From then on `pid` is final and `forget` is safe."""
        await asyncio.shield(self._started)

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
            if self._init is not None:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._init, signal.SIGKILL)
            await end_instance(self.mark, self.pid if self.is_running else None, None, self.uid)
        await self.wait()
        await self._others_ended.wait()

    def forget(self) -> None:
        """Watch it no longer and let it run: for a deployer that ends before what it started. `wait` returns None.

        Before `wait_started` has returned, the launcher would be killed with the deployer.
        """
        self._release()
        self._close_report()
        for descriptor in list(self._others):
            self._release_other(descriptor)
        if not self._ended.done():
            self._ended.set_result(None)

    async def _ask(self, until: float) -> None:
        found = await in_thread(self._find)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGTERM)
        # Once each: to many programs a second SIGTERM says "at once".
        send_signal([each for each in found if each.group != self.pid], signal.SIGTERM)
        while (left := until - self._loop.time()) > 0:
            # A shell may be gone long before the programs that it started.
            if not self.is_running and not await in_thread(self._find):
                return
            await asyncio.wait({self._ended}, timeout=min(left, _LOOK_SECONDS))
            if not self.is_running:
                await asyncio.sleep(min(left, _LOOK_SECONDS / 5))

    def _find(self) -> list[Process]:
        """All but the init of its PID namespace, which has nobody to wait for and is only killed."""
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
                self._take_over(read_started(self._reported))
            if not data:
                # The last who had it has become the command.
                self._close_report()

    def _take_over(self, started: Sequence[int]) -> None:
        """Watch the command in place of the launcher, where it is not the same process."""
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
            self._give_up(fault, {self.pid, init, command}, command)
            return
        self._loop.remove_reader(launcher)
        self.pid, (self._init, self._descriptor) = command, opened
        for descriptor in (launcher, self._init):
            self._others.add(descriptor)
            self._others_ended.clear()
            self._loop.add_reader(descriptor, self._on_end_of_other, descriptor)
        if seen is not None:
            self.started_ticks = seen.started_ticks
        self._loop.add_reader(self._descriptor, self._on_end)

    def _give_up(self, fault: OSError, pids: set[int], command: int) -> None:
        """Kill what nobody would hear the end of, as when there is no descriptor for the pidfds."""
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
        # The launcher failed, or was killed. What it had started is in its group, and is a child of ours.
        self._is_launched = True
        self._loop.remove_reader(descriptor)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._reap_then_finish((), self.pid, self.pid)

    def _finish(self, status: int | None) -> None:
        self._release()
        if self._init is None:
            # What is left of the report is its end.
            self._close_report()
        elif not self._started.done():
            # The init may be slower than a short command, and must not find that nobody reads.
            self._started.set_result(None)
        if not self._ended.done():
            self._ended.set_result(status)

    def _on_end_of_other(self, descriptor: int) -> None:
        reap(os.P_PIDFD, descriptor)
        self._release_other(descriptor)

    def _release_other(self, descriptor: int) -> None:
        if descriptor == self._init:
            self._init = None
            if self._ended.done():
                self._close_report()
        self._loop.remove_reader(descriptor)
        os.close(descriptor)
        self._others.discard(descriptor)
        if not self._others:
            self._others_ended.set()

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
    """Take over a process that an earlier deployer started. Raises ProcessLookupError where none with the mark runs."""
    descriptor = os.pidfd_open(pid)
    try:
        process, uid = read_process(pid), read_uid(pid)
        if process is None or uid is None or mark not in Marks().of(pid):
            raise ProcessLookupError(f"process {pid} is not {mark}")
        return RunningProcess(pid, mark, uid, descriptor, process.started_ticks)
    except BaseException:
        os.close(descriptor)
        raise
