"""Finds the processes that Pharos started, also those of a deployer that is gone, and ends them for certain."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection
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
from deployer.processes.threads import in_thread
from deployer.shield import shield

_END_OWNER = Path(__file__).with_name("end_owner.py")
_PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = 0.01
_MOST_ROUNDS = 20


class StillRunning(Exception):
    """Processes with a mark still run a minute after they were killed: the kernel waits for a dead disk, or a program
    starts new processes with the mark again and again."""


@dataclass(frozen=True, slots=True)
class MarkedProcess:
    """A process with a mark. Unless `is_sealed`, a program may have forged the mark: compare the uid."""

    pid: int
    is_leader: bool
    """Whether it is what `start_process` started; without a PID namespace also a daemon of that."""
    started_ticks: int
    """Clock ticks from the machine's start to the process's own; with the pid it is unique."""
    uid: int
    is_sealed: bool = True
    """True if the mark is that of its mount namespace; False if its environment claims it."""


def find_marked(prefix: str) -> dict[str, list[MarkedProcess]]:
    """Processes by those of their marks that begin with the prefix, the oldest first. Zombies are left out.

    Blocking: about 50 us a process of the machine.
    """
    marks = Marks()
    found: dict[str, list[MarkedProcess]] = {}
    for each in read_processes():
        sealed = marks.of_namespace(each.pid)
        for mark in sealed or marks.of_environment(each.pid):
            if mark.startswith(prefix) and (uid := read_uid(each.pid)) is not None:
                marked = MarkedProcess(each.pid, _leads(each), each.started_ticks, uid, bool(sealed))
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
    """As `end_marked`, and every other process of the owner as well. Processes of other users that claim such a mark
    keep running. Raises StillRunning.

    Cancellation waits until nothing is left.
    """

    def begins_so(marks: frozenset[str]) -> bool:
        return any(mark.startswith(mark_prefix) for mark in marks)

    return await _end(
        _Wanted(begins_so, owner=owner, claimant=None if owner is None else owner.uid), _PATIENCE_SECONDS
    )


async def end_marks(exact: Collection[str], patience_seconds: float) -> int:
    """Kill all processes with exactly one of these marks. Raises StillRunning after `patience_seconds`.

    One pass ends all marks: an application can invent so many marks that a pass for each would take minutes.
    """
    if not exact:
        return 0
    wanted = frozenset(exact)
    return await _end(_Wanted(lambda marks: not wanted.isdisjoint(marks)), patience_seconds)


async def end_instance(
    mark: str, session: int | None, owner: Owner | None, claimant: int | None = None
) -> int:
    """Kill all processes with exactly this mark, of the session, and of the owner. `claimant`: the user whose processes
    may claim the mark in their environments; None: all users. Raises StillRunning.

    Cancellation waits until nothing is left.
    """
    return await _end(_Wanted(lambda marks: mark in marks, session, owner, claimant), _PATIENCE_SECONDS)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The processes to end."""

    has_mark: Callable[[frozenset[str]], bool]
    session: int | None = None
    owner: Owner | None = None
    claimant: int | None = None

    def find(self) -> list[Process]:
        uid = None if self.owner is None else self.owner.uid
        return find_related(self.has_mark, self.session, uid, self.claimant)


async def _end(wanted: _Wanted, patience_seconds: float) -> int:
    return await shield(in_thread(lambda: _end_now(wanted, patience_seconds)))


def _end_now(wanted: _Wanted, patience_seconds: float) -> int:
    ended: set[tuple[int, int]] = set()
    deadline = time.monotonic() + patience_seconds
    looks_without = 0
    # Twice: a process has no environment for the moment in which it becomes another program.
    while looks_without < 2:
        if wanted.owner is not None and looks_without == 0:
            _end_owner(wanted.owner)
        found = wanted.find()
        if found:
            looks_without = 0
            if ended:
                # More than could be killed at once: stopped, they start no others.
                found = _stop_all(wanted)
            send_signal(found, signal.SIGKILL)
            ended.update((each.pid, each.started_ticks) for each in found)
        else:
            looks_without += 1
        if time.monotonic() > deadline:
            raise StillRunning(f"{len(found)} processes could not be ended")
        time.sleep(_PAUSE_SECONDS)
    return len(ended)


def _stop_all(wanted: _Wanted) -> list[Process]:
    for _ in range(_MOST_ROUNDS):
        found = wanted.find()
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
