"""Numbers for processes of one name on this machine, which a restarted process gets again.

A number is a file lock: the system releases it when the process ends, however it ends.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_MOST = 1000
_held: dict[str, IO[Any]] = {}


def claim_slot(name: str) -> int:
    """Return the lowest number, from 0, that no other process of this name and user holds; keep it to the end.

    Without file locks, the process ID is returned.
    """
    for number in range(_MOST):
        claimed = try_claim(f"{name}#{number}")
        if claimed is None:
            break
        if claimed:
            return number
    return os.getpid()


def try_claim(name: str) -> bool | None:
    """Return True if this process alone has the name now, False if another has it, None if that cannot be known.

    A name that this process holds already cannot be claimed again.
    """
    if fcntl is None:
        return None
    path = _path(name)
    if path is None:
        return None
    if path in _held:
        return False
    try:
        file = open(path, "ab")  # noqa: SIM115 - open until the process ends
    except OSError:
        return None
    try:
        # POSIX locks: unlike those of flock, a forked process does not share them.
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return False
    _held[path] = file
    return True


def release(name: str) -> None:
    """Give a claimed name back."""
    path = _path(name)
    if path is not None and path in _held:
        _held.pop(path).close()


def _path(name: str) -> str | None:
    folder = os.path.join(tempfile.gettempdir(), f"pharos-client-{os.getuid()}")
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        # Another user may have made a folder of this name.
        if os.lstat(folder).st_uid != os.getuid() or os.path.islink(folder):
            return None
    except OSError:
        return None
    return os.path.join(folder, hashlib.sha256(name.encode()).hexdigest()[:32])


def _forget() -> None:
    # The files stay open: closing them here would not release the parent's locks, but is not needed either.
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
