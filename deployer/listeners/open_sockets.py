"""The sockets that the processes of an instance have open, as /proc has them. Blocking."""

import os
import subprocess
from dataclasses import dataclass

from deployer.processes.process_table import Marks, Process, read_processes, read_uid

_SOCKET = "socket:["


@dataclass(frozen=True, slots=True)
class OpenSockets:
    """Inodes of the sockets that a user's processes have open."""

    own: frozenset[int]
    """Of the instance's processes."""
    others: frozenset[int]
    """Of all other processes of the user."""
    is_complete: bool
    """False if some process could not be read, as without CAP_SYS_PTRACE."""
    has_unreadable_own: bool = False
    """True if one of the instance's processes could not be read."""


def read_open_sockets(
    uid: int, mark: str, leader: int | None, wanted: frozenset[int] | None = None
) -> OpenSockets:
    """Read the descriptors of all processes of the user. `leader`: the process that the deployer started. Stops as
    soon as the instance is found to have all of `wanted` open: nothing that is read later would change that."""
    processes = read_processes()
    mine = _Membership(processes, mark, leader)
    own: set[int] = set()
    others: set[int] = set()
    is_complete, has_unreadable_own = True, False
    # The leader, its workers, all others.
    for process in sorted(processes, key=lambda each: (each.pid != leader, not mine.is_near(each))):
        if wanted and wanted <= own:
            break
        if read_uid(process.pid) != uid:
            continue
        sockets = _sockets_of(process.pid)
        if sockets is None:
            is_complete = False
            has_unreadable_own = has_unreadable_own or mine.has(process)
        elif sockets:
            (own if mine.has(process) else others).update(sockets)
    return OpenSockets(frozenset(own), frozenset(others - own), is_complete, has_unreadable_own)


def can_read_other_processes() -> bool:
    """True if this machine lets Pharos read the descriptors of a process of its own user.

    Asks with a process that Pharos starts for this: an application may hide its own descriptors (PR_SET_DUMPABLE).
    """
    probe = subprocess.Popen(
        ["/bin/sleep", "60"],
        env={},
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        return _sockets_of(probe.pid) is not None
    finally:
        probe.kill()
        probe.wait()


class _Membership:
    """Tells which processes belong to an instance: by descent, session and mount namespace, all of which the kernel
    keeps. The mark in a process's environment is its own to change, and counts only where nothing else is granted:
    in the mount namespace of Pharos itself."""

    def __init__(self, processes: list[Process], mark: str, leader: int | None) -> None:
        self._mark = mark
        self._leader = leader
        self._parents = {each.pid: each.parent for each in processes}
        self._marks = Marks()
        self._own_namespace = _mount_namespace("self")
        namespace = "" if leader is None else _mount_namespace(str(leader))
        self._namespace = "" if namespace == self._own_namespace else namespace

    def has(self, process: Process) -> bool:
        if self._leader is None:
            return False
        if self.is_near(process):
            return True
        namespace = _mount_namespace(str(process.pid))
        if namespace and namespace == self._own_namespace:
            return self._mark in self._marks.of(process.pid)
        return bool(namespace) and namespace == self._namespace

    def is_near(self, process: Process) -> bool:
        """True if the process is of the leader's session or descends from it, which costs no look at /proc."""
        return self._leader is not None and (process.session == self._leader or self._descends(process.pid))

    def _descends(self, pid: int) -> bool:
        # A process that ended during the look may have left a cycle of reused numbers.
        seen: set[int] = set()
        while pid not in seen:
            if pid == self._leader:
                return True
            seen.add(pid)
            pid = self._parents.get(pid, 0)
        return False


def _mount_namespace(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:
        return ""


def _sockets_of(pid: int) -> set[int] | None:
    """None: it may not be read."""
    found: set[int] = set()
    folder = f"/proc/{pid}/fd"
    try:
        for name in os.listdir(folder):
            try:
                target = os.readlink(f"{folder}/{name}")
            except FileNotFoundError:
                continue
            if target.startswith(_SOCKET):
                found.add(int(target[len(_SOCKET) : -1]))
    except PermissionError:
        return None
    except OSError:
        # It has ended.
        return found
    return found
