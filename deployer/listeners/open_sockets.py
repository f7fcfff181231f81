"""Reads from /proc which sockets the processes of an instance have open. Blocking."""

import os
import subprocess
from dataclasses import dataclass

from deployer.processes.process_table import Marks, Process, read_processes, read_uid

_SOCKET = "socket:["


@dataclass(frozen=True, slots=True)
class OpenSockets:
    """The inodes of the sockets that one user's processes have open."""

    own: frozenset[int]
    """Sockets of the instance's processes."""
    others: frozenset[int]
    """Sockets of the user's other processes."""
    is_complete: bool
    """False if some process could not be read, for example without CAP_SYS_PTRACE."""
    has_unreadable_own: bool = False
    """True if one of the instance's processes could not be read."""


def read_open_sockets(
    uid: int, mark: str, leader: int | None, needed: frozenset[int] | None = None
) -> OpenSockets:
    """Read which sockets the processes of the user have open. `leader`: the process that the deployer started. Stops
    as soon as the instance is found to have all of `needed` open: nothing that is read later would change that.

    If no process seems to have a listener open, a process that was just forked may have received it during the read.
    So this function then reads a second time.
    """
    found = _read_once(uid, mark, leader, needed)
    if needed and found.is_complete and not needed <= found.own | found.others:
        return _read_once(uid, mark, leader, needed)
    return found


def _read_once(uid: int, mark: str, leader: int | None, needed: frozenset[int] | None) -> OpenSockets:
    processes = read_processes()
    membership = _InstanceMembership(processes, mark, leader)
    own: set[int] = set()
    others: set[int] = set()
    is_complete, has_unreadable_own = True, False
    # Read the leader first, then its workers, then all other processes.
    for process in sorted(
        processes, key=lambda each: (each.pid != leader, not membership.is_related_to_leader(each))
    ):
        if needed and needed <= own:
            break
        if read_uid(process.pid) != uid:
            continue
        sockets = _read_socket_inodes(process.pid)
        if sockets is None:
            is_complete = False
            has_unreadable_own = has_unreadable_own or membership.has(process)
        elif sockets:
            (own if membership.has(process) else others).update(sockets)
    return OpenSockets(frozenset(own), frozenset(others - own), is_complete, has_unreadable_own)


def can_read_other_processes() -> bool:
    """Return True if this machine lets Pharos read the descriptors of a process of its own user.

    Tries with a new process: an application may hide its own descriptors (PR_SET_DUMPABLE).
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
        return _read_socket_inodes(probe.pid) is not None
    finally:
        probe.kill()
        probe.wait()


class _InstanceMembership:
    """Decides which processes belong to an instance: by descent, session and mount namespace, which a process cannot
    change. A process can change the mark in its environment, so the mark counts only for processes in the mount
    namespace of Pharos itself."""

    def __init__(self, processes: list[Process], mark: str, leader: int | None) -> None:
        self._mark = mark
        self._leader = leader
        self._parents = {each.pid: each.parent for each in processes}
        self._marks = Marks()
        self._own_namespace = _read_mount_namespace("self")
        namespace = "" if leader is None else _read_mount_namespace(str(leader))
        self._leader_namespace = "" if namespace == self._own_namespace else namespace

    def has(self, process: Process) -> bool:
        if self._leader is None:
            return False
        if self.is_related_to_leader(process):
            return True
        namespace = _read_mount_namespace(str(process.pid))
        if namespace and namespace == self._own_namespace:
            return self._mark in self._marks.read(process.pid)
        return bool(namespace) and namespace == self._leader_namespace

    def is_related_to_leader(self, process: Process) -> bool:
        """Return True if the process is in the leader's session or descends from it. Reads nothing from /proc."""
        return self._leader is not None and (process.session == self._leader or self._descends(process.pid))

    def _descends(self, pid: int) -> bool:
        # If processes end while the list is read, reused pids can form a cycle.
        seen: set[int] = set()
        while pid not in seen:
            if pid == self._leader:
                return True
            seen.add(pid)
            pid = self._parents.get(pid, 0)
        return False


def _read_mount_namespace(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:
        return ""


def _read_socket_inodes(pid: int) -> set[int] | None:
    """Return the inodes of the process's sockets; None without the permission to read them."""
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
        # The process has ended, so it has no open sockets.
        return found
    return found
