"""The processes of the machine as /proc has them, with the marks that Pharos put on its own. Blocking."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from deployer.processes.launcher import MARK_VARIABLE, MOUNT_PREFIX

_MARK = MARK_VARIABLE.encode() + b"="
_ENDED = frozenset("ZX")
# Half a second, for one that the machine keeps waiting in mid-change.
_MOST_LOOKS = 250
_LOOK_AGAIN_SECONDS = 0.002
# Of what stands behind the name in /proc/*/stat: the end of the environment in memory.
_END_OF_ENVIRONMENT = 48

INIT_PID, COMMAND_PID = 1, 2
"""In the PID namespace that the launcher makes: it starts these two, and nothing else."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process. `state` is the letter of proc(5), `started_ticks` clock ticks from the machine's start to its."""

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
    """None: there is none, or only what is left of one until its parent asks (a zombie)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name, in brackets, may hold anything.
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
    """Reads the marks of processes. Mount namespaces are looked at once: one object is for one look at the machine."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, frozenset[str]] = {_namespace("self"): frozenset()}

    def of(self, pid: int) -> frozenset[str]:
        """Return the marks of the process's mount namespace or, without any, the mark in its environment variables.
        Empty if /proc cannot be read.

        A program can set any environment variable, but cannot change its mount namespace. The variable counts where
        the kernel grants no namespaces, for git, and for a launcher that has not entered its namespaces yet.
        """
        return self.of_namespace(pid) or self.of_environment(pid)

    def of_environment(self, pid: int) -> frozenset[str]:
        """Return the mark in the process's environment variables, which the program may have forged."""
        claimed = _of_environment(pid)
        return frozenset() if claimed is None else frozenset({claimed})

    def of_namespace(self, pid: int) -> frozenset[str]:
        """Return the marks of the process's mount namespace, unless that is our own. There are several if one Pharos
        runs inside another."""
        namespace = _namespace(str(pid))
        known = self._by_namespace.get(namespace)
        if known is None:
            known = _of_mounts(pid)
            if namespace:
                self._by_namespace[namespace] = known
        return known


def _namespace(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:
        return ""


def _of_mounts(pid: int) -> frozenset[str]:
    """See proc_pid_mountinfo(5): the fifth field is the mount point; the second after the hyphen the source."""
    try:
        with open(f"/proc/{pid}/mountinfo", "rb") as file:
            lines = file.read().split(b"\n")
    except OSError:
        return frozenset()
    prefix = b"tmpfs " + MOUNT_PREFIX.encode()
    found = set()
    for line in lines:
        place, _, origin = line.partition(b" - ")
        if origin.startswith(prefix) and place.split()[4] == b"/srv":
            found.add(origin.removeprefix(prefix).split(b" ")[0].decode(errors="replace"))
    return frozenset(found)


def _of_environment(pid: int) -> str | None:
    for variable in _read_environment(pid).split(b"\0"):
        if variable.startswith(_MARK):
            return variable.removeprefix(_MARK).decode(errors="replace")
    return None


def _read_environment(pid: int) -> bytes:
    """Return the environment of a process, and retry while the process executes a new program: it has no environment
    then, possibly for long on a busy machine. A process with an empty environment costs no wait: an application may
    have thousands of them.
    """
    try:
        for look in range(_MOST_LOOKS):
            # Ask before reading: the change of the program may end after the read.
            is_changing = look == 0 or _is_changing(pid)
            with open(f"/proc/{pid}/environ", "rb") as file:
                if variables := file.read():
                    return variables
            if not is_changing:
                return b""
            # The kernel's own threads have no program, and never an environment.
            os.readlink(f"/proc/{pid}/exe")
            if look > 0:
                time.sleep(_LOOK_AGAIN_SECONDS)
    except OSError:
        return b""
    return b""


def _is_changing(pid: int) -> bool:
    """Whether it has no environment yet, not even an empty one. Raises OSError."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    return len(fields) > _END_OF_ENVIRONMENT and fields[_END_OF_ENVIRONMENT] == b"0"


def read_uid(pid: int) -> int | None:
    """The real user. None: the process has ended."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"Uid:"):
                    return int(line.split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None


def read_namespace_pids(pid: int) -> tuple[int, ...]:
    """Its pids from our PID namespace inwards: one more for each that it is deeper in. Empty: it has ended."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"NSpid:"):
                    return tuple(map(int, line.split()[1:]))
    except (FileNotFoundError, ProcessLookupError):
        return ()
    return (pid,)


def find_related(
    is_wanted: Callable[[frozenset[str]], bool],
    session: int | None,
    uid: int | None,
    claimant: int | None = None,
) -> list[Process]:
    """Return the processes with a wanted mark, of that session or of that user, and whatever descends from them; never
    ourselves.

    `claimant`: the user of the wanted processes; None: all users. Processes of other users may claim the mark in their
    environments as well, and waiting for their end would let an application delay its neighbour.
    """
    processes = read_processes()
    marks = Marks()
    found = {
        each.pid
        for each in processes
        if (session is not None and each.session == session)
        or (uid is not None and read_uid(each.pid) == uid)
        or (is_wanted(marks.of(each.pid)) and _may_have(each.pid, marks, claimant))
    }
    _add_descendants(found, processes)
    found.discard(os.getpid())
    return [each for each in processes if each.pid in found]


def _may_have(pid: int, marks: Marks, claimant: int | None) -> bool:
    # A launcher runs as our own user until it drops its privileges.
    return claimant is None or bool(marks.of_namespace(pid)) or read_uid(pid) in (claimant, os.geteuid())


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
    """To each that is still the process that was seen, and not another that got its number since."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            descriptor = os.pidfd_open(process.pid)
            try:
                now = read_process(process.pid)
                if now is not None and now.started_ticks == process.started_ticks:
                    signal.pidfd_send_signal(descriptor, number)
            finally:
                os.close(descriptor)
