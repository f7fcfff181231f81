"""Names for processes of one host, which a restarted process gets again.

On Linux a name is an abstract Unix socket: all processes of a network namespace see it, with any user and any folder
for temporary files, and no process can remove it. Elsewhere it is a file lock. The system releases both when the
process ends for any reason.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import socket
import sys
import tempfile
from collections.abc import Iterable

from pharos_client.queue_monitors import QueueMonitor

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_MOST = 1000
_IS_LINUX = sys.platform.startswith("linux")
# A container's or a pod's.
_ID = re.compile(r"[0-9a-f-]{32,64}")
# In this order: a pod's ID is in the path of the first one, and stays the same if its sandbox is replaced.
_FILES_OF_CONTAINERS = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf")
_held: dict[str, int] = {}


def name_worker(program: str, monitors: Iterable[QueueMonitor]) -> str:
    """Return a name that no other running worker of these queues has, and keep it to the end.

    `program` contains the host name. A worker that is started again gets the name of the former one.
    """
    queues = sorted((monitor.api, monitor.number) for monitor in monitors)
    # Numbers are unique among processes that see each other's names, so the name contains this scope.
    name = f"{program} {_scope()} {queues}"
    return f"{name}/{claim_slot(name)}"


def claim_slot(name: str) -> int:
    """Return the lowest number, from 0, that no other process of this name holds, and keep it to the end.

    If names cannot be claimed, the process ID is returned.
    """
    for number in range(_MOST):
        claimed = try_claim(f"{name}#{number}")
        if claimed is None:
            break
        if claimed:
            return number
    return os.getpid()


def try_claim(name: str) -> bool | None:
    """Return True if only this process has the name now, False if another process has it, None if this is unknown.

    A name that this process holds already cannot be claimed again.
    """
    if name in _held:
        return False
    try:
        descriptor = _bind(name) if _IS_LINUX else _lock(name)
    except OSError:
        return None
    if descriptor is None:
        return False
    _held[name] = descriptor
    return True


def release(name: str) -> None:
    """Release a claimed name."""
    if name in _held:
        os.close(_held.pop(name))


def _bind(name: str) -> int | None:
    """Return the descriptor that holds the name, None if another process has it. Raises `OSError`."""
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as bound:
        try:
            bound.bind(f"\0pharos-client/{_digest(name)}")
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return None
            raise
        # A descriptor instead of the socket, which may be one of gevent or eventlet.
        return os.dup(bound.fileno())


def _lock(name: str) -> int | None:
    """As `_bind`, with a file."""
    if fcntl is None:
        raise OSError("There are no file locks.")
    path = os.path.join(_make_folder(), _digest(name))
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            # POSIX locks: unlike those of flock, a forked process does not share them.
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except FileNotFoundError:
            pass
        except OSError:
            os.close(descriptor)
            return None
        # The file was removed between the two calls, so a lock on it would be useless.
        os.close(descriptor)


def _make_folder() -> str:
    """Create the folder of locks; return its path. Raises `OSError`."""
    folder = _folder()
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        # Another user may have created a folder with this name.
        if os.lstat(folder).st_uid != os.getuid() or os.path.islink(folder):
            raise
    return folder


def _folder() -> str:
    # On macOS files here are not removed by age, unlike temporary ones.
    caches = os.path.expanduser("~/Library/Caches")
    return os.path.join(
        caches if os.path.isdir(caches) else tempfile.gettempdir(), f"pharos-client-{os.getuid()}"
    )


def _scope() -> str:
    """Return the scope in which names are unique: a container, the folder of locks, or "" for a whole host."""
    if not _IS_LINUX:
        return "" if fcntl is None else _folder()
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
            return _find_container(file.read())
    except OSError:
        return ""


def _find_container(mounts: str) -> str:
    """Return the ID of the container or pod, which it keeps when it is restarted; "" outside of one.

    Container engines mount files from a folder of the container, in the format of /proc/self/mountinfo:
    "9 1 8:1 /var/lib/docker/containers/ID/hosts /etc/hosts …".
    """
    found = {}
    for line in mounts.splitlines():
        fields = line.split(" ", 5)
        if len(fields) > 5 and fields[4] in _FILES_OF_CONTAINERS:
            # Use the last match, because the engine itself may run in a container.
            found[fields[4]] = (_ID.findall(fields[3]) or [""])[-1]
    return next((found[file] for file in _FILES_OF_CONTAINERS if found.get(file)), "")


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def _forget() -> None:
    # A process that a worker has forked may outlive the worker, and must not keep the names.
    for descriptor in _held.values():
        os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
