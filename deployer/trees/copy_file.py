"""Copies the content of a file."""

import errno
import os
from collections.abc import Callable

# Small enough that a copy stops soon after cancellation.
_CHUNK = 32 * 1024**2
_NO_COPY_CALL = (errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM)
_BLOCK = 512


def copy_content(source: int, target: int, found: os.stat_result, check: Callable[[], None]) -> None:
    """Copy the content of `source`, up to the size in `found`, into the empty file `target`. Both are descriptors.

    The copy keeps holes: a sparse file can be larger than the disk. File systems with reflinks copy no data. The copy
    calls `check` before each part; `check` may raise. Raises OSError.
    """
    size = found.st_size
    if found.st_blocks * _BLOCK >= size:
        _copy_range(source, target, 0, size, check)
        return
    position = 0
    while position < size:
        try:
            begin = os.lseek(source, position, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            # The rest of the file is a hole.
            break
        position = min(os.lseek(source, begin, os.SEEK_HOLE), size)
        _copy_range(source, target, begin, position, check)
    os.ftruncate(target, size)


def _copy_range(source: int, target: int, begin: int, end: int, check: Callable[[], None]) -> None:
    while begin < end:
        check()
        count = min(end - begin, _CHUNK)
        # Some file systems return 0 before the end of the file: a plain read shows whether data is left.
        copied = _try_copy_range(source, target, begin, count) or _send(source, target, begin, count)
        if not copied:
            raise OSError(errno.EIO, f"a file ended after {begin} of {end} bytes while it was copied")
        begin += copied


def _try_copy_range(source: int, target: int, begin: int, count: int) -> int:
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
