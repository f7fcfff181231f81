"""Lets one process of a machine be a deployer: a copy of its folder has its ID, and would end what the other runs.

The claim is an open file in memory that has the ID in its name. Others see it in `/proc` exactly where they also see
the processes that they would take for theirs; the kernel takes it away with the process, and nothing is left on disk.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_LONGEST = 1000


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that is this deployer already, and its folder."""

    pid: int
    folder: str


@contextmanager
def claiming(identity_id: str, folder: str, is_application: Callable[[int], bool]) -> Iterator[Holder | None]:
    """Claim the ID; gives who has it already. `is_application`: whether processes of this user are applications, which
    may claim whatever they like."""
    name = f"pharos-deployer-{identity_id}"
    claim = os.memfd_create(name)
    try:
        os.write(claim, folder.encode(errors="replace")[:_LONGEST])
        # Looked for after the claim: of two that start together, both may find the other, and never neither.
        yield _find_other(name, claim, is_application)
    finally:
        os.close(claim)


def _find_other(name: str, claim: int, is_application: Callable[[int], bool]) -> Holder | None:
    own, claimed = str(os.getpid()), f"/memfd:{name} (deleted)"
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if is_application(os.stat(f"/proc/{pid}").st_uid):
                continue
            for number in os.listdir(at := f"/proc/{pid}/fd"):
                is_own = pid == own and number == str(claim)
                if not is_own and _read_link(f"{at}/{number}") == claimed:
                    return Holder(int(pid), _read_folder(f"{at}/{number}"))
        except OSError:
            # It has ended, or is none that this one could end.
            continue
    return None


def _read_link(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None


def _read_folder(path: str) -> str:
    with open(path, "rb") as file:
        told = os.pread(file.fileno(), _LONGEST, 0).decode(errors="replace")
    return re.sub(r"[^\x20-\x7e\xa0-\uffff]", "?", told)
