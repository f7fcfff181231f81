"""Finds and reliably ends processes that Pharos started, also those of an earlier deployer."""

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
from deployer.processes.threads import run_in_thread
from deployer.shield import shield

_KILL_USER_SCRIPT = Path(__file__).with_name("kill_user.py")
_TIMEOUT_SECONDS = 60.0
_PAUSE_SECONDS = 0.01
_MAX_ROUNDS = 20


class StillRunning(Exception):
    """Processes with a mark still run a minute after they were killed. The kernel holds them because of a dead disk,
    or a program keeps starting new processes with the mark."""


@dataclass(frozen=True, slots=True)
class MarkedProcess:
    """A process with a mark. If `is_sealed` is False, a program may have forged the mark: compare the uid."""

    pid: int
    is_leader: bool
    """True for the process that `start_process` has started. Without a PID namespace, also True for daemons that the
    command has started."""
    started_ticks: int
    """Clock ticks between the start of the machine and of the process; unique together with the pid."""
    uid: int
    is_sealed: bool = True
    """True if the mark was read from the mount namespace. False if it was read from the environment variables."""


def find_marked(prefix: str) -> dict[str, list[MarkedProcess]]:
    """Return processes by their marks that begin with the prefix, oldest first, without zombies.

    Blocking: takes about 50 µs for each process of the machine.
    """
    marks = Marks()
    found: dict[str, list[MarkedProcess]] = {}
    for each in read_processes():
        sealed = marks.read_sealed(each.pid)
        for mark in sealed or marks.read_claimed(each.pid):
            if mark.startswith(prefix) and (uid := read_uid(each.pid)) is not None:
                marked = MarkedProcess(each.pid, _is_command(each), each.started_ticks, uid, bool(sealed))
                found.setdefault(mark, []).append(marked)
    for processes in found.values():
        processes.sort(key=lambda each: (each.started_ticks, each.pid))
    return found


def _is_command(process: Process) -> bool:
    """Return True for the second process of a PID namespace. Without a PID namespace, return True for a session
    leader."""
    if process.session != process.pid:
        return False
    inside = read_namespace_pids(process.pid)[1:]
    return inside in ((), (COMMAND_PID,))


async def end_marked(prefix: str, owner: Owner | None = None) -> int:
    """Kill all processes with a mark that begins with the prefix; return their number. Raises StillRunning.

    With an owner, also kill all other processes of the owner, and spare other users' processes that claim such a mark.
    Cancellation waits until no process is left.
    """

    def has_prefix(marks: frozenset[str]) -> bool:
        return any(mark.startswith(prefix) for mark in marks)

    return await _end_selected(
        _Selection(has_prefix, owner=owner, claimant_uid=None if owner is None else owner.uid),
        _TIMEOUT_SECONDS,
    )


async def end_exact_marks(exact_marks: Collection[str], timeout_seconds: float) -> int:
    """Kill all processes with exactly one of these marks. Raises StillRunning after `timeout_seconds`.

    One pass ends all marks: an application can invent so many marks that a pass for each would take minutes.
    """
    if not exact_marks:
        return 0
    selection = frozenset(exact_marks)
    return await _end_selected(_Selection(lambda marks: not selection.isdisjoint(marks)), timeout_seconds)


async def end_instance(
    mark: str, session: int | None, owner: Owner | None, claimant_uid: int | None = None
) -> int:
    """Kill all processes that have exactly this mark, or belong to the session or to the owner. `claimant_uid`: the
    user whose processes may claim the mark in their environments. None: all users. Raises StillRunning.

    On cancellation, wait until no process is left.
    """
    return await _end_selected(
        _Selection(lambda marks: mark in marks, session, owner, claimant_uid), _TIMEOUT_SECONDS
    )


@dataclass(frozen=True, slots=True)
class _Selection:
    """Selects the processes to end."""

    has_mark: Callable[[frozenset[str]], bool]
    session: int | None = None
    owner: Owner | None = None
    claimant_uid: int | None = None

    def find(self) -> list[Process]:
        uid = None if self.owner is None else self.owner.uid
        return find_related(self.has_mark, self.session, uid, self.claimant_uid)


async def _end_selected(selection: _Selection, timeout_seconds: float) -> int:
    return await shield(run_in_thread(lambda: _end_now(selection, timeout_seconds)))


def _end_now(selection: _Selection, timeout_seconds: float) -> int:
    ended: set[tuple[int, int]] = set()
    deadline = time.monotonic() + timeout_seconds
    empty_scans = 0
    # Scan until two scans are empty: a process has no environment while it executes a new program.
    while empty_scans < 2:
        if selection.owner is not None and empty_scans == 0:
            _kill_user(selection.owner)
        found = selection.find()
        if found:
            empty_scans = 0
            if ended:
                # Some processes escaped the first kill. Stop them first: stopped processes start no others.
                found = _stop_all(selection)
            send_signal(found, signal.SIGKILL)
            ended.update((each.pid, each.started_ticks) for each in found)
        else:
            empty_scans += 1
        if time.monotonic() > deadline:
            raise StillRunning(f"{len(found)} processes could not be ended")
        time.sleep(_PAUSE_SECONDS)
    return len(ended)


def _stop_all(selection: _Selection) -> list[Process]:
    for _ in range(_MAX_ROUNDS):
        found = selection.find()
        running = [each for each in found if not each.is_stopped]
        if not running:
            break
        send_signal(running, signal.SIGSTOP)
    return found


def _kill_user(owner: Owner) -> None:
    """Kill all processes of the owner at once. Retry if one of them kills our script first."""
    if owner.uid in (0, os.getuid()):
        raise ValueError("the owner of a process is neither root nor Pharos' own user")
    command = [sys.executable, "-I", "-S", str(_KILL_USER_SCRIPT), str(owner.uid), str(owner.gid)]
    for _ in range(_MAX_ROUNDS):
        if subprocess.run(command, env={}, cwd="/", stdin=subprocess.DEVNULL).returncode >= 0:
            return
