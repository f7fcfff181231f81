"""Walks a tree that other users can still write, and is not led out of it.

A build can pass descriptors of its folders to another process, over a socket, and that process outlives the build. So
no path is followed twice: each folder is opened relative to its parent, without following links, and becomes Pharos'
own (`take_folder`) before it is listed. From then on nobody else can add, rename or replace its entries.
"""

import errno
import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

# Of a huge folder, only this many names are held in memory.
_BATCH = 10_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Kind = Literal["enter", "leave", "file", "link", "other"]


class Visit(NamedTuple):
    """One step of a walk."""

    kind: Kind
    """`enter` and `leave`: a folder, before and after its entries. `other`: a pipe, a socket or a device."""
    parent: int
    """A descriptor of the folder that has the entry; valid until the walk goes on."""
    name: str
    found: os.stat_result | None = None
    """`enter`: the folder as it was before it was taken."""


class _Level:
    def __init__(self, name: str, found: os.stat_result) -> None:
        self.name = name
        self.key = (found.st_dev, found.st_ino)
        self.folders: list[str] = []
        self.is_listed = False


def walk_tree(top: int, *, is_emptied: bool) -> Iterator[Visit]:
    """Visit all that is in the folder `top`, a descriptor that stays the caller's. Blocking.

    `is_emptied`: the caller removes each entry when it is visited (folders at `leave`), so that a folder is listed in
    parts, until it is empty. Two descriptors are open at a time, however deep the tree is. Raises OSError, as for a
    folder on another file system.
    """
    here = os.dup(top)
    way = [_Level("", os.fstat(here))]
    try:
        take_folder(here)
        while True:
            level = way[-1]
            if level.folders:
                name = level.folders.pop()
                inner = open_own(name, _FOLDER, here)
                try:
                    found = os.fstat(inner)
                    if found.st_dev != level.key[0]:
                        raise OSError(errno.EXDEV, "another file system is mounted in the tree", name)
                    take_folder(inner)
                    yield Visit("enter", here, name, found)
                except BaseException:
                    os.close(inner)
                    raise
                os.close(here)
                here = inner
                way.append(_Level(name, found))
            elif level.is_listed:
                way.pop()
                if not way:
                    return
                outer = _open_parent(here, way[-1])
                os.close(here)
                here = outer
                yield Visit("leave", here, level.name)
            else:
                yield from _list(here, level, _BATCH if is_emptied else None)
    finally:
        os.close(here)


def _list(here: int, level: _Level, most: int | None) -> Iterator[Visit]:
    with os.scandir(here) as entries:
        found = list(islice(entries, most))
        level.is_listed = most is None or not found
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                level.folders.append(entry.name)
            elif entry.is_symlink():
                yield Visit("link", here, entry.name)
            elif entry.is_file(follow_symlinks=False):
                yield Visit("file", here, entry.name)
            else:
                yield Visit("other", here, entry.name)


def _open_parent(here: int, level: _Level) -> int:
    parent = os.open("..", _FOLDER, dir_fd=here)
    found = os.fstat(parent)
    if (found.st_dev, found.st_ino) != level.key:
        # Only where Pharos and the tenant are one user.
        os.close(parent)
        raise OSError(errno.ESTALE, "the tree was moved while it was walked", level.name)
    return parent


def take_folder(folder: int) -> None:
    """Make the folder Pharos' own and close it to all others: holders of a descriptor can no longer change it."""
    if os.geteuid() == 0:
        # First: the owner could take back a change of the mode.
        os.fchown(folder, 0, 0)
    os.fchmod(folder, 0o700)


def take_tree(path: Path) -> None:
    """Take the folder at this path, which Pharos' own folder has. Raises OSError."""
    parent = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        top = open_folder(path.name, parent)
    finally:
        os.close(parent)
    try:
        take_folder(top)
    finally:
        os.close(top)


def open_folder(name: str, parent: int) -> int:
    """Return a descriptor of a folder in `parent`. Raises OSError, also for a link."""
    return open_own(name, _FOLDER, parent)


def open_own(name: str, flags: int, parent: int) -> int:
    """Open an entry, also where Pharos is not root and a build has taken the rights away. Raises OSError."""
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=parent)
    except PermissionError:
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISLNK(mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
        # chmod takes no O_PATH descriptor; this path leads to what is open, and to nothing else.
        os.chmod(f"/proc/self/fd/{handle}", stat.S_IMODE(mode) | (0o700 if stat.S_ISDIR(mode) else 0o400))
    finally:
        os.close(handle)
    return os.open(name, flags, dir_fd=parent)
