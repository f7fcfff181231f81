"""Copies the output of a build into new files that only Pharos can write.

A change of owner and mode is not enough. A build can pass a writable descriptor to a process that outlives the build,
also in a message that waits unseen in a socket. Through such a descriptor the file stays writable. The copy creates
each file and folder anew, in a folder that no tenant ever had open.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from deployer.processes.confinement import Owner
from deployer.trees.copy_file import copy_content
from deployer.trees.remove_tree import remove_entry
from deployer.trees.walk_tree import Visit, open_folder, open_own, take_folder, walk_tree

_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# No permissions for others, no setuid or setgid bits.
_FOLDER_MODE, _PROGRAM_MODE, _FILE_MODE = 0o750, 0o750, 0o640


class ForeignFile(Exception):
    """A user other than the build's has put the file at this path into the tree."""


def seal_tree(
    work: Path, target: Path, owner: Owner | None, left_out: str, check: Callable[[], None]
) -> None:
    """Move the tree `work/tree` to `target`, which must not exist, file by file. Blocking.

    `work` is a folder of Pharos alone; it also holds hard links during the move. The owner's group can read what
    `target`, and nobody can write it. The copy keeps hard links, symbolic links, holes and times, and leaves out pipes,
    sockets and the entry `left_out` of the tree. It removes each file from `work` after copying it, and so takes little
    more space on the disk. It calls `check` for each entry and for parts of large files; `check` may raise.
    Raises `ForeignFile` and OSError; the caller then removes the rest of `work` and the part of `target`.
    """
    (work / "links").mkdir(mode=0o700)
    target.mkdir(mode=0o700)
    handles: list[int] = []
    try:
        for path in (work, work / "links", target):
            handles.append(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))
        handles.append(open_folder("tree", handles[0]))
        _, links, target_handle, tree = handles
        take_folder(tree)
        remove_entry(tree, left_out)
        _Sealing(links, owner, check).move(tree, target_handle)
    finally:
        for handle in handles:
            os.close(handle)


class _Sealing:
    def __init__(self, links: int, owner: Owner | None, check: Callable[[], None]) -> None:
        self._links = links
        self._owner = owner
        self._check = check
        self._linked: set[int] = set()
        """The inodes of which `links` has the copy."""

    def move(self, tree: int, target: int) -> None:
        here = os.dup(target)
        # The original times of each open folder.
        times = [os.fstat(tree)]
        try:
            for visit in walk_tree(tree, is_emptied=True):
                self._check()
                if visit.kind == "enter":
                    assert visit.found is not None
                    self._check_owner(visit.found, visit.name)
                    times.append(visit.found)
                    os.mkdir(visit.name, 0o700, dir_fd=here)
                    here = _move_to(here, visit.name)
                elif visit.kind == "leave":
                    os.rmdir(visit.name, dir_fd=visit.parent)
                    self._finish(here, _FOLDER_MODE, times.pop())
                    here = _move_to(here, "..")
                else:
                    self._move_entry(visit, here)
            self._finish(here, _FOLDER_MODE, times.pop())
        finally:
            os.close(here)

    def _move_entry(self, visit: Visit, here: int) -> None:
        if visit.kind == "file":
            self._move_file(visit.parent, visit.name, here)
        elif visit.kind == "link":
            os.symlink(os.readlink(visit.name, dir_fd=visit.parent), visit.name, dir_fd=here)
            if self._owner is not None:
                os.chown(visit.name, -1, self._owner.gid, dir_fd=here, follow_symlinks=False)
        os.unlink(visit.name, dir_fd=visit.parent)

    def _move_file(self, parent: int, name: str, here: int) -> None:
        source = open_own(name, _FILE, parent)
        try:
            found = os.fstat(source)
            # Without the kernel's protection of hard links, a build can link to files that it may not read.
            self._check_owner(found, name)
            if found.st_ino in self._linked:
                os.link(str(found.st_ino), name, src_dir_fd=self._links, dst_dir_fd=here)
                return
            made = os.open(name, _NEW_FILE, 0o600, dir_fd=here)
            try:
                copy_content(source, made, found, self._check)
                self._finish(made, _PROGRAM_MODE if found.st_mode & stat.S_IXUSR else _FILE_MODE, found)
            finally:
                os.close(made)
            if found.st_nlink > 1:
                os.link(name, str(found.st_ino), src_dir_fd=here, dst_dir_fd=self._links)
                self._linked.add(found.st_ino)
        finally:
            os.close(source)

    def _check_owner(self, found: os.stat_result, name: str) -> None:
        if self._owner is not None and found.st_uid != self._owner.uid:
            raise ForeignFile(name)

    def _finish(self, handle: int, mode: int, found: os.stat_result) -> None:
        if self._owner is not None:
            os.fchown(handle, -1, self._owner.gid)
        os.fchmod(handle, mode)
        # Python's compiled modules, and caches of other programs, are valid only with the times of their sources.
        os.utime(handle, ns=(found.st_atime_ns, found.st_mtime_ns))


def _move_to(here: int, name: str) -> int:
    """Close `here`, and return a descriptor of the next folder. `..` is safe: nobody else changes the target."""
    there = open_folder(name, here)
    os.close(here)
    return there
