"""What a process may do: whose rights it has, which folders it sees, how much it may take."""

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

from deployer.processes.launcher import APP_FOLDER, HOME_FOLDER, MARK_VARIABLE

__all__ = [
    "APP_FOLDER",
    "HOME_FOLDER",
    "MARK_VARIABLE",
    "Confinement",
    "Limits",
    "Owner",
    "search_path",
]

_USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose rights a process has: numbers, for which no entry in /etc/passwd is needed. Neither may be 0."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Limits:
    """What the kernel counts a process, but for `processes`: those are counted for the owner's uid altogether.

    A process gets its `processes` on top of what its owner runs when it starts, up to eight times the number: a new
    release must start beside one that has filled its limit.
    """

    processes: int = 512
    open_files: int = 4096
    memory_bytes: int = 4 * 2**30
    """Private writable memory (RLIMIT_DATA): reserved addresses, as of Java and Go, do not count."""
    file_bytes: int = 8 * 2**30


@dataclass(frozen=True, slots=True)
class Confinement:
    """Where a process runs, and with which rights.

    With a mount namespace it sees `folder` as /srv/app and `home` as /srv/home, has a /tmp of its own, and may write
    nothing else. Without one (`has_namespaces` tells) it sees them where they are, and the rights of its owner decide:
    the owner must then be able to reach both.
    """

    folder: Path
    """The work tree, and the working directory."""
    home: Path
    """Writable, and HOME."""
    owner: Owner | None
    """None where Pharos does not run as root: its own user."""
    limits: Limits = field(default_factory=Limits)
    is_writable: bool = False
    """Whether `folder` may be written: yes for a build, no for a release that runs."""
    hidden: tuple[Path, ...] = ()
    """Pharos' data, each a folder or a file: seen as empty. Those that are missing are passed over."""


def search_path() -> str:
    """PATH for commands: ours without our own virtual environment, what is relative to a work tree, and root's home.

    Toolchains in /usr/local, /opt and an ordinary user's home stay; root's home is closed to the users of commands.
    """
    # Installed without one, as in an image, Pharos' folder is that of everybody's Python.
    is_virtual = sys.prefix != sys.base_prefix
    own = os.path.realpath(os.path.join(sys.prefix, "bin")) if is_virtual else None
    folders = os.environ.get("PATH", "").split(":")
    kept = [
        each
        for each in folders
        if each.startswith("/") and os.path.realpath(each) != own and not f"{each}/".startswith("/root/")
    ]
    return ":".join([*kept, *(each for each in _USUAL_PATH.split(":") if each not in kept)])
