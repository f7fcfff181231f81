"""Describes how a process is confined: its user, the folders that it sees, and its limits."""

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

from deployer.processes.launcher import MARK_VARIABLE

__all__ = [
    "MARK_VARIABLE",
    "Confinement",
    "Limits",
    "Owner",
    "build_search_path",
]

_USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Owner:
    """The user and group IDs of a process. They need no entry in /etc/passwd. Neither may be 0."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of one process, except `processes`, which the kernel counts for the owner's uid as a whole.

    `processes` is added to the number that the owner runs at the start, up to eight times the limit: a new release must
    start next to one that has filled its limit.
    """

    processes: int = 512
    open_files: int = 4096
    memory_bytes: int = 4 * 2**30
    """Limit of private writable memory in bytes (RLIMIT_DATA). Address space that is only reserved, as by Java and Go,
    does not count."""
    file_bytes: int = 8 * 2**30


@dataclass(frozen=True, slots=True)
class Confinement:
    """Where a process runs, and with which permissions.

    With a mount namespace, the process sees `folder` as /srv/app and `home` as /srv/home, has a /tmp of its own, and
    can write nothing else. Without one (see `has_namespaces`), the process sees the real paths, and file permissions
    decide: the owner must then be able to reach both folders.
    """

    folder: Path
    """The work tree. It is also the working directory."""
    home: Path
    """A writable folder, which is HOME."""
    owner: Owner | None
    """The user of the process. None if Pharos does not run as root: the process then runs as Pharos' user."""
    limits: Limits = field(default_factory=Limits)
    is_writable: bool = False
    """True if the process may write to `folder`, as a build does. False for a running release."""
    hidden: tuple[Path, ...] = ()
    """Folders and files that the process sees as empty. Missing ones are skipped."""


def build_search_path() -> str:
    """Return PATH for commands: Pharos' own without its virtual environment, relative folders, and root's home.

    Toolchains in /usr/local, /opt and an ordinary user's home stay. Commands cannot read root's home.
    """
    # Without a virtual environment, as in an image, the folder of Pharos' Python is that of all programs.
    is_virtual = sys.prefix != sys.base_prefix
    own = os.path.realpath(os.path.join(sys.prefix, "bin")) if is_virtual else None
    folders = os.environ.get("PATH", "").split(":")
    kept = [
        each
        for each in folders
        if each.startswith("/") and os.path.realpath(each) != own and not f"{each}/".startswith("/root/")
    ]
    return ":".join([*kept, *(each for each in _USUAL_PATH.split(":") if each not in kept)])
