"""Copies the output of a build into new files that only Pharos can write.

A change of owner and mode is not enough. A build can pass a writable descriptor to a process that outlives the build,
also in a message that waits unseen in a socket. Through such a descriptor the file stays writable. The copy creates
each file and folder anew, in a folder that no tenant ever had open.
"""

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

from deployer.processes.confinement import Owner
from deployer.trees.remove_tree import remove_entry
from deployer.trees.walk_tree import Visit, lock_down_folder, open_entry, open_folder, walk_tree

_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# No permissions for other users, no setuid or setgid bits.
_FOLDER_MODE, _PROGRAM_MODE, _FILE_MODE = 0o750, 0o750, 0o640
# Maximum bytes to copy at a time, so that a copy stops soon after cancellation.
_CHUNK = 32 * 1024**2
_NO_COPY_CALL = (errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM)
_BLOCK = 512


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
        lock_down_folder(tree)
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
        """The inodes that already have a copy in the folder `links`."""

    def move(self, tree: int, target: int) -> None:
        current = os.dup(target)
        # The original times of each folder that is open now.
        times = [os.fstat(tree)]
        try:
            for visit in walk_tree(tree, is_emptied=True):
                self._check()
                if visit.kind == "enter":
                    assert visit.status is not None
                    self._check_owner(visit.status, visit.name)
                    times.append(visit.status)
                    os.mkdir(visit.name, 0o700, dir_fd=current)
                    current = _move_to(current, visit.name)
                elif visit.kind == "leave":
                    os.rmdir(visit.name, dir_fd=visit.parent)
                    self._finish(current, _FOLDER_MODE, times.pop())
                    current = _move_to(current, "..")
                else:
                    self._move_entry(visit, current)
            self._finish(current, _FOLDER_MODE, times.pop())
        finally:
            os.close(current)

    def _move_entry(self, visit: Visit, current: int) -> None:
        if visit.kind == "file":
            self._move_file(visit.parent, visit.name, current)
        elif visit.kind == "link":
            os.symlink(os.readlink(visit.name, dir_fd=visit.parent), visit.name, dir_fd=current)
            if self._owner is not None:
                os.chown(visit.name, -1, self._owner.gid, dir_fd=current, follow_symlinks=False)
        os.unlink(visit.name, dir_fd=visit.parent)

    def _move_file(self, parent: int, name: str, current: int) -> None:
        source = open_entry(name, _FILE, parent)
        try:
            status = os.fstat(source)
            # Without the kernel's protection of hard links, a build can link to files that it may not read.
            self._check_owner(status, name)
            if status.st_ino in self._linked:
                os.link(str(status.st_ino), name, src_dir_fd=self._links, dst_dir_fd=current)
                return
            made = os.open(name, _NEW_FILE, 0o600, dir_fd=current)
            try:
                copy_content(source, made, status, self._check)
                self._finish(made, _PROGRAM_MODE if status.st_mode & stat.S_IXUSR else _FILE_MODE, status)
            finally:
                os.close(made)
            if status.st_nlink > 1:
                os.link(name, str(status.st_ino), src_dir_fd=current, dst_dir_fd=self._links)
                self._linked.add(status.st_ino)
        finally:
            os.close(source)

    def _check_owner(self, status: os.stat_result, name: str) -> None:
        if self._owner is not None and status.st_uid != self._owner.uid:
            raise ForeignFile(name)

    def _finish(self, handle: int, mode: int, status: os.stat_result) -> None:
        if self._owner is not None:
            os.fchown(handle, -1, self._owner.gid)
        os.fchmod(handle, mode)
        # Python's compiled modules, and caches of other programs, are valid only with the times of their sources.
        os.utime(handle, ns=(status.st_atime_ns, status.st_mtime_ns))


def _move_to(current: int, name: str) -> int:
    """Close `current`, and return a descriptor of the next folder. `..` is safe: nobody else changes the target."""
    there = open_folder(name, current)
    os.close(current)
    return there


def copy_content(source: int, target: int, status: os.stat_result, check: Callable[[], None]) -> None:
    """Copy the content of `source`, up to the size in `status`, into the empty file `target`. Both are descriptors.

    The copy keeps holes: a sparse file can be larger than the disk. File systems with reflinks copy no data. The copy
    calls `check` before each part; `check` may raise. Raises OSError.
    """
    size = status.st_size
    if status.st_blocks * _BLOCK >= size:
        _copy_range(source, target, 0, size, check)
        return
    position = 0
    while position < size:
        try:
            begin = os.lseek(source, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            # The rest of the file is a hole, which needs no copy.
            break
        position = min(os.lseek(source, begin, os.SEEK_HOLE), size)
        _copy_range(source, target, begin, position, check)
    os.ftruncate(target, size)


def _copy_range(source: int, target: int, begin: int, end: int, check: Callable[[], None]) -> None:
    while begin < end:
        check()
        count = min(end - begin, _CHUNK)
        # Some file systems return 0 before the end of the file: a plain read shows whether data is left.
        copied = _copy_in_kernel(source, target, begin, count) or _send(source, target, begin, count)
        if not copied:
            raise OSError(errno.EIO, f"a file ended after {begin} of {end} bytes while it was copied")
        begin += copied


def _copy_in_kernel(source: int, target: int, begin: int, count: int) -> int:
    """Copy up to `count` bytes in the kernel, and return the number of copied bytes; 0 if this is not supported."""
    try:
        return os.copy_file_range(source, target, count, begin, begin)
    except OSError as error:
        if error.errno not in _NO_COPY_CALL:
            raise
        return 0


def _send(source: int, target: int, begin: int, count: int) -> int:
    os.lseek(target, begin, os.SEEK_SET)
    return os.sendfile(target, source, begin, count)
