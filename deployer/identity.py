"""Who a deployer is: an ID and a range of users of its own, kept in its folder over restarts."""

import fcntl
import json
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

USERS = 100_000
"""How many users a deployer has for its processes."""
# Above what systems, people and containers are given; below what a C int holds.
_FIRST_UIDS = range(100_000_000, 2_000_000_000, USERS)


class FolderInUse(Exception):
    """Another deployer runs on this folder."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A deployer, and the numbers of the users that its processes get."""

    id: str
    """In the environment of each of its processes: it finds them again after it was killed."""
    name: str
    """Machine and folder, for people."""
    first_uid: int
    """The first of `USERS`. What runs as one of them is this deployer's: it kills by user."""
    folder: Path


@contextmanager
def owning(folder: Path) -> Iterator[Identity]:
    """The deployer of this folder, which nobody else can be meanwhile. Raises `FolderInUse`."""
    folder.mkdir(parents=True, exist_ok=True)
    # Its processes may have to enter, and can list nothing.
    folder.chmod(0o711)
    with open(folder / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderInUse(
                f"Another deployer runs on {folder}. Stop it, or give this one another --folder."
            ) from None
        yield _read(folder)


def _read(folder: Path) -> Identity:
    path = folder / "identity.json"
    try:
        known = json.loads(path.read_bytes())
    except FileNotFoundError:
        known = {"id": f"dpl_{secrets.token_hex(8)}", "first_uid": _unused_users()}
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(known) + "\n")
        # Whole or not at all: with another ID it would not find its processes.
        os.replace(fresh, path)
    name = f"{socket.gethostname()}:{folder.resolve()}"[:200]
    return Identity(str(known["id"]), name, int(known["first_uid"]), folder.resolve())


def _unused_users() -> int:
    """Users as whom nothing runs now: two deployers of one machine must not have the same."""
    running = {_uid_of(name) for name in os.listdir("/proc") if name.isdecimal()}
    while True:
        first = secrets.choice(_FIRST_UIDS)
        if not any(first <= uid < first + USERS for uid in running if uid is not None):
            return first


def _uid_of(pid: str) -> int | None:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None
