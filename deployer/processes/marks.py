"""Finds the processes that Pharos started, also those of a deployer that is gone, and ends them for certain."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deployer.processes.confinement import Owner
from deployer.processes.process_table import (
    COMMAND_PID,
    Marks,
    Process,
    find_related,
    read_namespace_pids,
    read_processes,
    read_uid,
    send_signal,
)
from deployer.processes.shielded import carry_out
from deployer.processes.threads import in_thread

_END_OWNER = Path(__file__).with_name("end_owner.py")
_PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = 0.01
_MOST_ROUNDS = 20

Wanted = Callable[[frozenset[str]], bool]


class StillRunning(Exception):
    """Processes that were killed are still there after a minute: the kernel holds them, as it does for a dead disk."""


@dataclass(frozen=True, slots=True)
class MarkedProcess:
    """A process with a mark. A program may give itself the mark of another: hold the uid against the owner."""

    pid: int
    is_leader: bool
    """Whether it is what `start_process` started; without a PID namespace also a daemon of that."""
    started_ticks: int
    """Clock ticks from the machine's start to the process's own; with the pid it is unique."""
    uid: int


def find_marked(prefix: str) -> dict[str, list[MarkedProcess]]:
    """Processes by those of their marks that begin with the prefix, the oldest first. Zombies are left out.

    Blocking: about 50 us a process of the machine.
    """
    marks = Marks()
    found: dict[str, list[MarkedProcess]] = {}
    for each in read_processes():
        for mark in marks.of(each.pid):
            if mark.startswith(prefix) and (uid := read_uid(each.pid)) is not None:
                marked = MarkedProcess(each.pid, _leads(each), each.started_ticks, uid)
                found.setdefault(mark, []).append(marked)
    for processes in found.values():
        processes.sort(key=lambda each: (each.started_ticks, each.pid))
    return found


def _leads(process: Process) -> bool:
    """Whether it is the command: the second process of its PID namespace, or, without one, who leads its session."""
    if process.session != process.pid:
        return False
    inside = read_namespace_pids(process.pid)[1:]
    return inside in ((), (COMMAND_PID,))


async def end_marked(prefix: str) -> int:
    """Kill all processes with a mark that begins so; return how many there were. Raises StillRunning."""
    return await end_all(prefix, None)


async def end_all(mark_prefix: str, owner: Owner | None) -> int:
    """As `end_marked`, and every process of the owner as well, which must run nothing else. Raises StillRunning.

    Cancellation waits until nothing is left.
    """

    def begins_so(marks: frozenset[str]) -> bool:
        return any(mark.startswith(mark_prefix) for mark in marks)

    return await carry_out(in_thread(lambda: _end_now(begins_so, None, owner)))


async def end_instance(mark: str, session: int | None, owner: Owner | None) -> int:
    """Kill all processes with exactly this mark, of the session, and of the owner. Raises StillRunning.

    Cancellation waits until nothing is left.
    """
    return await carry_out(in_thread(lambda: _end_now(lambda marks: mark in marks, session, owner)))


def _end_now(is_wanted: Wanted, session: int | None, owner: Owner | None) -> int:
    uid = None if owner is None else owner.uid
    ended: set[tuple[int, int]] = set()
    deadline = time.monotonic() + _PATIENCE_SECONDS
    looks_without = 0
    # Twice: a process has no environment for the moment in which it becomes another program.
    while looks_without < 2:
        if owner is not None and looks_without == 0:
            _end_owner(owner)
        found = find_related(is_wanted, session, uid)
        if found:
            looks_without = 0
            if ended:
                # More than could be killed at once: stopped, they start no others.
                found = _stop_all(is_wanted, session, uid)
            send_signal(found, signal.SIGKILL)
            ended.update((each.pid, each.started_ticks) for each in found)
        else:
            looks_without += 1
        if time.monotonic() > deadline:
            raise StillRunning(f"{len(found)} processes could not be ended")
        time.sleep(_PAUSE_SECONDS)
    return len(ended)


def _stop_all(is_wanted: Wanted, session: int | None, uid: int | None) -> list[Process]:
    for _ in range(_MOST_ROUNDS):
        found = find_related(is_wanted, session, uid)
        running = [each for each in found if not each.is_stopped]
        if not running:
            break
        send_signal(running, signal.SIGSTOP)
    return found


def _end_owner(owner: Owner) -> None:
    """Again where one of them was quicker and killed ours. What is left after that is killed one by one."""
    if owner.uid in (0, os.getuid()):
        raise ValueError("the owner of a process is neither root nor Pharos' own user")
    command = [sys.executable, "-I", "-S", str(_END_OWNER), str(owner.uid), str(owner.gid)]
    for _ in range(_MOST_ROUNDS):
        if subprocess.run(command, env={}, cwd="/", stdin=subprocess.DEVNULL).returncode >= 0:
            return
