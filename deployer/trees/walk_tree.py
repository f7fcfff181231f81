"""Walks a tree that other users can still write, without leaving the tree.

A build can pass descriptors of its folders over a socket to a process that outlives the build. So the walk follows no
path twice: it opens each folder relative to its parent, follows no links, and makes the folder Pharos' own
(`take_folder`) before listing it. From then on nobody else can add, rename or replace entries of the folder.
"""

import errno
import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

# Names of a folder that the walk holds in memory at a time.
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
    """Visit all entries below the folder `top`, a descriptor that the caller closes. Blocking.

    `is_emptied`: the caller removes each entry at its visit (folders at `leave`), and the walk lists a folder in parts
    until the folder is empty. The walk holds two descriptors at a time, however deep the tree is. Raises OSError, also
    for a folder on another file system.
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
        # Possible only if Pharos and the tenant are the same user.
        os.close(parent)
        raise OSError(errno.ESTALE, "the tree was moved while it was walked", level.name)
    return parent


def take_folder(folder: int) -> None:
    """Make Pharos the owner of the folder and deny access to all others, including holders of a descriptor."""
    if os.geteuid() == 0:
        # Change the owner first: the former owner could revert a change of the mode.
        os.fchown(folder, 0, 0)
    os.fchmod(folder, 0o700)


def take_tree(path: Path) -> None:
    """Apply `take_folder` to the folder at this path, whose parent belongs to Pharos. Raises OSError."""
    top = open_top(path)
    try:
        take_folder(top)
    finally:
        os.close(top)


def open_top(path: Path) -> int:
    """Open the folder at this path, whose parent belongs to Pharos, without following a link in its place. Raises
    OSError."""
    parent = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return open_folder(path.name, parent)
    finally:
        os.close(parent)


def open_folder(name: str, parent: int) -> int:
    """Return a descriptor of a folder in `parent`. Raises OSError, also for a link."""
    return open_own(name, _FOLDER, parent)


def open_own(name: str, flags: int, parent: int) -> int:
    """Open an entry, also if Pharos is not root and a build has removed the permissions. Raises OSError."""
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=parent)
    except PermissionError:
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISLNK(mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
        # chmod takes no O_PATH descriptor. This /proc path always names the open file.
        os.chmod(f"/proc/self/fd/{handle}", stat.S_IMODE(mode) | (0o700 if stat.S_ISDIR(mode) else 0o400))
    finally:
        os.close(handle)
    return os.open(name, flags, dir_fd=parent)
