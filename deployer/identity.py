"""The identity of a deployer: an ID and a range of users, stored in the deployer's folder."""

import fcntl
import json
import os
import secrets
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deployer.identity_claim import claim_identity
from deployer.write_atomically import write_atomically

USERS_PER_RANGE = 100_000
"""A deployer starts with one range of users. When all users of its ranges are taken, it takes another range."""
MAX_RANGES = 1000
# Subfolders that a driver creates when an application is deployed (drivers/local/layout.py).
_APPLICATION_DATA = ("artefacts", "homes")
_FILES = ("identity.json", "identity.copy.json")
"""The files with the identity. The second one is a copy in case the first is lost."""
# Ranges are above the IDs of system users, people and containers, and below the limit of a C int.
_FIRST_UIDS = range(100_000_000, 2_000_000_000, USERS_PER_RANGE)


class NoMoreUsers(Exception):
    """The requested number lies beyond the users of `MAX_RANGES` ranges."""


class FolderInUse(Exception):
    """The folder cannot be used: another deployer uses the folder or a copy of it, or the identity file is lost."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The ID of a deployer, and the users of its processes."""

    id: str
    """The deployer's ID. Each process has it in its environment, so that the deployer finds its processes after the
    deployer was killed."""
    name: str
    """Machine and folder of the deployer, as people see them."""
    first_uid: int
    """The first of `USERS_PER_RANGE` user IDs. The deployer may kill all processes of these users."""
    folder: Path
    further_uids: list[int] = field(default_factory=list, compare=False)
    """The first users of further ranges, in the order in which they were taken."""

    def find_user(self, number: int) -> int | None:
        """Return the user ID for this number, counted from 0. None if the range of the number was not taken yet."""
        number_of_range, offset = divmod(number, USERS_PER_RANGE)
        firsts = [self.first_uid, *self.further_uids]
        return firsts[number_of_range] + offset if number_of_range < len(firsts) else None

    def has_user(self, uid: int) -> bool:
        """Return True if processes of this user are applications of this deployer."""
        return any(first <= uid < first + USERS_PER_RANGE for first in (self.first_uid, *self.further_uids))

    def take_user(self, number: int) -> int:
        """Return the user ID for this number. Take and store missing ranges first. Raises `NoMoreUsers`."""
        if number >= MAX_RANGES * USERS_PER_RANGE:
            raise NoMoreUsers(f"{number} is beyond the {MAX_RANGES * USERS_PER_RANGE:,} users of a deployer")
        while (user := self.find_user(number)) is None:
            further = [*self.further_uids, _choose_unused_users((self.first_uid, *self.further_uids))]
            _write(self.folder, {"id": self.id, "first_uid": self.first_uid, "more": further})
            # Use a range only once it is stored: otherwise the next deployer process could not find processes of these
            # users.
            self.further_uids[:] = further
        return user


@contextmanager
def hold_identity(folder: Path) -> Iterator[Identity]:
    """Hold the identity of the folder's deployer exclusively within the context. Raises `FolderInUse`."""
    folder.mkdir(parents=True, exist_ok=True)
    # Application processes may have to pass through the folder, but cannot list it.
    folder.chmod(0o711)
    with open(folder / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FolderInUse(
                f"Another deployer uses the folder {folder}: it has locked {folder / 'lock'}, and a folder is for one "
                "deployer. Stop that deployer, or give this one another folder: set PHAROS_DEPLOY_FOLDER for `pharos "
                "deployer`, or --data for `pharos up`, which uses the subfolder deployer."
            ) from None
        identity = _read(folder)
        with claim_identity(identity.id, str(identity.folder), identity.has_user) as holder:
            if holder is not None:
                raise FolderInUse(
                    f"{identity.folder} and {holder.folder} are copies of one folder, and process {holder.pid} runs "
                    "with the other one. Two deployers with the same ID would end each other's applications. Stop that "
                    "process, or start this deployer on another machine. To run both on this machine, stop both, "
                    "delete the folder that is the copy, and deploy its applications again."
                )
            yield identity


def _read(folder: Path) -> Identity:
    known = next((found for name in _FILES if (found := _read_file(folder / name)) is not None), None)
    if known is None:
        if any((folder / name).exists() for name in (*_FILES, *_APPLICATION_DATA)):
            raise FolderInUse(
                f"The folder {folder} was used before, but {_FILES[0]} and {_FILES[1]} in it are missing or damaged: "
                "with a new ID the deployer would not find the applications that it started. Restore one of the two "
                "files from a backup. Without a backup, restart the machine to end these applications, rename "
                f"{folder}, and deploy them again. Files that they kept are in the subfolder homes."
            )
        known = {"id": f"dpl_{secrets.token_hex(8)}", "first_uid": _choose_unused_users(()), "more": []}
    if any(_read_file(folder / name) != known for name in _FILES):
        _write(folder, known)
    name = f"{socket.gethostname()}:{folder.resolve()}"[:200]
    return Identity(known["id"], name, known["first_uid"], folder.resolve(), list(known["more"]))


def _read_file(path: Path) -> dict[str, Any] | None:
    """Return the identity in this file; None if the file is damaged or missing."""
    try:
        found = json.loads(path.read_bytes())
        more = [int(first) for first in found.get("more", [])]
        return {"id": str(found["id"]), "first_uid": int(found["first_uid"]), "more": more}
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _write(folder: Path, known: dict[str, Any]) -> None:
    for name in _FILES:
        # With another ID, the deployer would not find its running processes.
        write_atomically(folder / name, json.dumps(known) + "\n")


def _choose_unused_users(own: Sequence[int]) -> int:
    """Return the first user ID of a range whose users run no process, because two deployers on one machine must not
    share users. `own`: the ranges of this deployer."""
    running = {_uid_of(name) for name in os.listdir("/proc") if name.isdecimal()}
    while True:
        first = secrets.choice(_FIRST_UIDS)
        if first not in own and not any(
            first <= uid < first + USERS_PER_RANGE for uid in running if uid is not None
        ):
            return first


def _uid_of(pid: str) -> int | None:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None
