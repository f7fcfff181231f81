"""Makes sure that only one process of a machine uses the ID of a deployer.

A copy of a deployer's folder has the same ID, so two deployers would end each other's applications. The claim is an
open file in memory with the ID in its name. Another process sees this file in `/proc` exactly if it also sees the
applications. When the claiming process ends, the kernel removes the file, and nothing is left on disk.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from deployer.processes.process_table import Marks

_LONGEST = 1000


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that already uses the ID, and its folder."""

    pid: int
    folder: str


@contextmanager
def claim_identity(
    identity_id: str, folder: str, is_application: Callable[[int], bool]
) -> Iterator[Holder | None]:
    """Claim the ID within the context. Yield the process that has claimed the ID already, or None. Claims by
    applications do not count. `is_application` recognizes the user ID of an application. If Pharos is not root,
    applications are recognized by their marks."""
    name = f"pharos-deployer-{identity_id}"
    claim = os.memfd_create(name)
    try:
        os.write(claim, folder.encode(errors="replace")[:_LONGEST])
        # Search after the claim: of two processes that start at the same time, at least one finds the other.
        yield _find_other(identity_id, name, claim, is_application)
    finally:
        os.close(claim)


def _find_other(
    identity_id: str, name: str, claim: int, is_application: Callable[[int], bool]
) -> Holder | None:
    marks = Marks()
    own, claimed = str(os.getpid()), f"/memfd:{name} (deleted)"
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            # Check mounts with a mark first: an application may have thousands of file descriptors.
            if is_application(os.stat(f"/proc/{pid}").st_uid) or marks.read_sealed(int(pid)):
                continue
            for number in os.listdir(at := f"/proc/{pid}/fd"):
                if (pid == own and number == str(claim)) or _read_link(f"{at}/{number}") != claimed:
                    continue
                if not _is_started_by(identity_id, marks.read_claimed(int(pid))):
                    return Holder(int(pid), _read_folder(f"{at}/{number}"))
        except OSError:
            # The process has ended, or this deployer has no permission to end it anyway.
            continue
    return None


def _is_started_by(identity_id: str, marks: Iterable[str]) -> bool:
    """Return True if the deployer with this ID wrote one of the marks. A process with the mark of another deployer
    counts as a claimant: it may be a copy of this deployer that runs, without namespaces, as an application of the
    other deployer."""
    return any(mark.startswith(f"{identity_id}/") for mark in marks)


def _read_link(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None


def _read_folder(path: str) -> str:
    with open(path, "rb") as file:
        folder = os.pread(file.fileno(), _LONGEST, 0).decode(errors="replace")
    return re.sub(r"[^\x20-\x7e\xa0-\uffff]", "?", folder)
