"""Kills and reaps child processes that have no watcher."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterable

_FIRST_PAUSE_SECONDS = 0.001
_LONGEST_PAUSE_SECONDS = 1.0

_abandoned: set["asyncio.Task[None]"] = set()


def reap(kind: int, number: int) -> int | None:
    """Return the exit status of an ended child, negative for a signal. None if the process is not a child of
    Pharos."""
    with contextlib.suppress(ChildProcessError):
        result = os.waitid(kind, number, os.WEXITED)
        if result is not None:
            return _status(result)
    return None


def kill_children(pids: Iterable[int]) -> None:
    """Kill children that were not reaped yet: until then, their pids cannot belong to other processes."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


async def reap_children(pids: Iterable[int], group: int | None, leader: int) -> int | None:
    """Wait for these children, and for all children in the group; return the status of the leader.

    This function polls: a thread would be blocked while the kernel holds a process, as it does for a dead disk, and
    a pidfd may be unavailable. It polls all children in turn, since an init ends only after all other processes in
    its PID namespace.
    """
    status = None
    waiting = {(os.P_PID, pid) for pid in pids} | ({(os.P_PGID, group)} if group is not None else set())
    pause = _FIRST_PAUSE_SECONDS
    while True:
        for each in list(waiting):
            ended, are_all = _reap_ended(*each)
            status = ended.get(leader, status)
            if are_all:
                waiting.discard(each)
        if not waiting:
            return status
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def _reap_ended(kind: int, number: int) -> tuple[dict[int, int], bool]:
    """Return the exit statuses of ended children by pid, and True if no child is left."""
    ended = {}
    try:
        while (result := os.waitid(kind, number, os.WEXITED | os.WNOHANG)) is not None:
            ended[result.si_pid] = _status(result)
    except ChildProcessError:
        return ended, True
    return ended, False


def abandon_launcher(pid: int, report: int) -> None:
    """Kill a launcher and the processes that it has started, and reap them in the background. Closes the descriptor
    `report`."""
    # The init stays in the launcher's group, and its end kills all processes in its PID namespace.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    task = asyncio.get_running_loop().create_task(_reap_abandoned(pid, report), name=f"reap {pid}")
    _abandoned.add(task)
    task.add_done_callback(_abandoned.discard)


async def _reap_abandoned(pid: int, report: int) -> None:
    try:
        await reap_children({pid}, None, pid)
        # The launcher has ended, so its report is complete.
        started = read_started(os.read(report, 4096))
    except BlockingIOError:
        started = []
    finally:
        os.close(report)
    # The command leaves the group after the launcher has reported its pid.
    kill_children(started)
    await reap_children(started, pid, pid)


def read_started(report: bytes) -> list[int]:
    """Parse the launcher's report: return the pids of the init and the command; empty without a PID namespace."""
    line, is_whole, _ = report.partition(b"\n")
    line = line.strip(b".")
    return list(map(int, line.split())) if is_whole and line != b"stays" else []


def _status(result: os.waitid_result) -> int:
    return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status
