"""Reads a file that a repository brought: whatever it is in truth, nothing is followed, awaited or left open."""

import os
import stat
from pathlib import Path


class NotAFile(Exception):
    """It is a folder, a link, a pipe, a socket or a device."""


def read_tree_file(path: Path, most_bytes: int) -> bytes:
    """The first `most_bytes` of a regular file. Raises `NotAFile`, and `OSError` where there is nothing to read."""
    if path.is_symlink():
        # A link could lead to what this user may read, and the build may not.
        raise NotAFile
    # Without O_NONBLOCK a pipe would be waited for until somebody writes into it.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise NotAFile
        data = bytearray()
        while len(data) < most_bytes and (part := os.read(handle, most_bytes - len(data))):
            data += part
        return bytes(data)
    finally:
        os.close(handle)
