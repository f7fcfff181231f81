"""Reads the processes of the machine from /proc, with the marks that Pharos has set on its own processes. Blocking."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from deployer.processes.launcher import MARK_VARIABLE
from deployer.processes.mounts import MOUNT_PREFIX

_MARK = MARK_VARIABLE.encode() + b"="
_ENDED = frozenset("ZX")
# Number of reads: half a second in total, for a busy machine that is slow to execute a program.
_MAX_READS = 250
_RETRY_SECONDS = 0.002
# Index among the fields after the name in /proc/*/stat: the end of the environment in memory.
_ENVIRONMENT_END_FIELD = 48

INIT_PID, COMMAND_PID = 1, 2
"""The process IDs in a PID namespace of the launcher, which starts only these two processes."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process. `state` is a letter of proc(5), `started_ticks` the clock ticks between the machine's start and
    its."""

    pid: int
    parent: int
    group: int
    session: int
    state: str
    started_ticks: int

    @property
    def is_stopped(self) -> bool:
        return self.state in "Tt"


def read_process(pid: int) -> Process | None:
    """Return the process; None if there is none, or only a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name, in brackets, may contain any character.
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state = fields[0].decode()
    if state in _ENDED:
        return None
    return Process(pid, int(fields[1]), int(fields[2]), int(fields[3]), state, int(fields[19]))


def read_processes() -> list[Process]:
    pids = (int(name) for name in os.listdir("/proc") if name.isdigit())
    return [process for pid in pids if (process := read_process(pid)) is not None]


class Marks:
    """Reads the marks of processes. Caches the marks of mount namespaces, so use a new object for each scan."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, frozenset[str]] = {_read_mount_namespace("self"): frozenset()}

    def read(self, pid: int) -> frozenset[str]:
        """Return the marks of the process's mount namespace or, without any, the mark in its environment variables.
        Empty if /proc cannot be read.

        A program can set any environment variable, but cannot change its mount namespace. The variable is needed on
        machines without namespaces, for git, and for a launcher that has not entered its namespaces yet.
        """
        return self.read_sealed(pid) or self.read_claimed(pid)

    def read_claimed(self, pid: int) -> frozenset[str]:
        """Return the mark in the process's environment variables, which the program may have forged."""
        mark = _read_claimed_mark(pid)
        return frozenset() if mark is None else frozenset({mark})

    def read_sealed(self, pid: int) -> frozenset[str]:
        """Return the marks of the process's mount namespace, unless that is the namespace of Pharos itself. There are
        several marks if one Pharos runs inside another."""
        namespace = _read_mount_namespace(str(pid))
        known = self._by_namespace.get(namespace)
        if known is None:
            known = _read_mount_marks(pid)
            if namespace:
                self._by_namespace[namespace] = known
        return known


def _read_mount_namespace(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:
        return ""


def _read_mount_marks(pid: int) -> frozenset[str]:
    """Return the marks among the mounts. See proc_pid_mountinfo(5): the fifth field is the mount point, the second one
    after the hyphen the source."""
    try:
        with open(f"/proc/{pid}/mountinfo", "rb") as file:
            lines = file.read().split(b"\n")
    except OSError:
        return frozenset()
    prefix = b"tmpfs " + MOUNT_PREFIX.encode()
    found = set()
    for line in lines:
        mount, _, origin = line.partition(b" - ")
        if origin.startswith(prefix) and mount.split()[4] == b"/srv":
            found.add(origin.removeprefix(prefix).split(b" ")[0].decode(errors="replace"))
    return frozenset(found)


def _read_claimed_mark(pid: int) -> str | None:
    for variable in _read_environment(pid).split(b"\0"):
        if variable.startswith(_MARK):
            return variable.removeprefix(_MARK).decode(errors="replace")
    return None


def _read_environment(pid: int) -> bytes:
    """Return the environment of a process. Retry while the process executes a new program: it then has no environment,
    possibly for long on a busy machine. Do not wait for a process with an empty environment: an application may have
    thousands.
    """
    try:
        for attempt in range(_MAX_READS):
            # Check before reading: the execution may end after the read.
            is_executing = attempt == 0 or _is_executing(pid)
            with open(f"/proc/{pid}/environ", "rb") as file:
                if variables := file.read():
                    return variables
            if not is_executing:
                return b""
            # Raises for the kernel's own threads, which have no program and never an environment.
            os.readlink(f"/proc/{pid}/exe")
            if attempt > 0:
                time.sleep(_RETRY_SECONDS)
    except OSError:
        return b""
    return b""


def _is_executing(pid: int) -> bool:
    """Return True if the process has no environment yet, not even an empty one. Raises OSError."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return len(fields) > _ENVIRONMENT_END_FIELD and fields[_ENVIRONMENT_END_FIELD] == b"0"


def read_uid(pid: int) -> int | None:
    """Return the real user of the process; None if it has ended."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"Uid:"):
                    return int(line.split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None


def read_namespace_pids(pid: int) -> tuple[int, ...]:
    """Return the pids of the process in our PID namespace and in each nested one. Empty if it has ended."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"NSpid:"):
                    return tuple(map(int, line.split()[1:]))
    except (FileNotFoundError, ProcessLookupError):
        return ()
    return (pid,)


def find_related(
    has_mark: Callable[[frozenset[str]], bool],
    session: int | None,
    uid: int | None,
    claimant_uid: int | None = None,
) -> list[Process]:
    """Return the processes with a matching mark, of that session or of that user, and all their descendants, without
    this process.

    `claimant_uid`: the user whose processes may claim the mark in their environments; None: all users. Processes of
    other users may claim the mark too, and waiting for their end would let an application delay its neighbour.
    """
    processes = read_processes()
    marks = Marks()
    found = {
        each.pid
        for each in processes
        if (session is not None and each.session == session)
        or (uid is not None and read_uid(each.pid) == uid)
        or (has_mark(marks.read(each.pid)) and _may_claim(each.pid, marks, claimant_uid))
    }
    _add_descendants(found, processes)
    found.discard(os.getpid())
    return [each for each in processes if each.pid in found]


def _may_claim(pid: int, marks: Marks, claimant_uid: int | None) -> bool:
    # A launcher runs as our own user until it drops its privileges.
    return (
        claimant_uid is None or bool(marks.read_sealed(pid)) or read_uid(pid) in (claimant_uid, os.geteuid())
    )


def _add_descendants(found: set[int], processes: list[Process]) -> None:
    children: dict[int, list[int]] = {}
    for each in processes:
        children.setdefault(each.parent, []).append(each.pid)
    waiting = list(found)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found:
                found.add(child)
                waiting.append(child)


def send_signal(processes: Iterable[Process], number: signal.Signals) -> None:
    """Send the signal to each process, unless another process has reused its pid."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(process.pid)
            try:
                now = read_process(process.pid)
                if now is not None and now.started_ticks == process.started_ticks:
                    signal.pidfd_send_signal(descriptor, number)
            finally:
                os.close(descriptor)
