"""Walks a tree that other users can still write, without leaving the tree.

A build can pass descriptors of its folders over a socket to a process that outlives the build. So the walk follows no
path twice: it opens each folder relative to its parent, follows no links, and makes the folder Pharos' own
(`lock_down_folder`) before listing it. From then on nobody else can add, rename or replace entries of the folder.
"""

import errno
import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Literal, NamedTuple

from deployer.processes.confinement import Owner

# How many names of a folder the walk holds in memory at a time.
_BATCH = 10_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

Kind = Literal["enter", "leave", "file", "link", "other"]


class Visit(NamedTuple):
    """One step of a walk: an entry that the walk has reached."""

    kind: Kind
    """`enter` and `leave`: a folder, before and after its entries. `other`: a pipe, a socket or a device."""
    parent: int
    """A descriptor of the folder that has the entry; valid until the walk goes on."""
    name: str
    status: os.stat_result | None = None
    """For `enter`: the status of the folder before `lock_down_folder`."""


class _Level:
    def __init__(self, name: str, status: os.stat_result) -> None:
        self.name = name
        self.key = (status.st_dev, status.st_ino)
        self.folders: list[str] = []
        self.is_listed = False


def walk_tree(top: int, *, is_emptied: bool) -> Iterator[Visit]:
    """Visit all entries below the folder `top`, a descriptor that the caller closes. Blocking.

    `is_emptied`: the caller removes each entry at its visit (folders at `leave`), and the walk lists a folder in parts
    until the folder is empty. The walk holds two descriptors at a time, however deep the tree is. Raises OSError, also
    for a folder on another file system.
    """
    current = os.dup(top)
    levels = [_Level("", os.fstat(current))]
    try:
        lock_down_folder(current)
        while True:
            level = levels[-1]
            if level.folders:
                name = level.folders.pop()
                child = open_entry(name, _FOLDER, current)
                try:
                    status = os.fstat(child)
                    if status.st_dev != level.key[0]:
                        raise OSError(errno.EXDEV, "another file system is mounted in the tree", name)
                    lock_down_folder(child)
                    yield Visit("enter", current, name, status)
                except BaseException:
                    os.close(child)
                    raise
                os.close(current)
                current = child
                levels.append(_Level(name, status))
            elif level.is_listed:
                levels.pop()
                if not levels:
                    return
                enclosing = _open_parent(current, levels[-1])
                os.close(current)
                current = enclosing
                yield Visit("leave", current, level.name)
            else:
                yield from _list(current, level, _BATCH if is_emptied else None)
    finally:
        os.close(current)


def _list(current: int, level: _Level, limit: int | None) -> Iterator[Visit]:
    with os.scandir(current) as entries:
        batch = list(islice(entries, limit))
        level.is_listed = limit is None or not batch
        for entry in batch:
            if entry.is_dir(follow_symlinks=False):
                level.folders.append(entry.name)
            elif entry.is_symlink():
                yield Visit("link", current, entry.name)
            elif entry.is_file(follow_symlinks=False):
                yield Visit("file", current, entry.name)
            else:
                yield Visit("other", current, entry.name)


def _open_parent(current: int, level: _Level) -> int:
    parent = os.open("..", _FOLDER, dir_fd=current)
    status = os.fstat(parent)
    if (status.st_dev, status.st_ino) != level.key:
        # This is only possible if Pharos and the tenant are the same user.
        os.close(parent)
        raise OSError(errno.ESTALE, "the tree was moved while it was walked", level.name)
    return parent


def lock_down_folder(folder: int) -> None:
    """Make Pharos the owner of the folder and deny access to all others, including holders of a descriptor."""
    if os.geteuid() == 0:
        # Change the owner first: the former owner could revert a change of the mode.
        os.fchown(folder, 0, 0)
    os.fchmod(folder, 0o700)


def lock_down_tree(path: Path) -> None:
    """Apply `lock_down_folder` to the folder at this path, whose parent belongs to Pharos. Raises OSError."""
    top = open_top(path)
    try:
        lock_down_folder(top)
    finally:
        os.close(top)


def chown_tree(folder: Path, owner: Owner) -> None:
    """Make `owner` the owner of all entries of the folder, and of the folder last. Blocking. Raises OSError.

    The owner cannot open the folder until the end, and so cannot redirect the walk with a link.
    """
    top = open_top(folder)
    try:
        for visit in walk_tree(top, is_emptied=False):
            if visit.kind != "enter":
                os.chown(visit.name, owner.uid, owner.gid, dir_fd=visit.parent, follow_symlinks=False)
        os.fchown(top, owner.uid, owner.gid)
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
    return open_entry(name, _FOLDER, parent)


def open_entry(name: str, flags: int, parent: int) -> int:
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
        # chmod does not accept an O_PATH descriptor. This path in /proc always names the open file.
        os.chmod(f"/proc/self/fd/{handle}", stat.S_IMODE(mode) | (0o700 if stat.S_ISDIR(mode) else 0o400))
    finally:
        os.close(handle)
    return os.open(name, flags, dir_fd=parent)
