"""Settings of the memory allocator of this process."""

import ctypes
import sys

# malloc.h of glibc.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_TRIM_THRESHOLD_BYTES = 256 * 2**20
# Half of the largest heap: some versions of glibc accept no more.
_MMAP_THRESHOLD_BYTES = 32 * 2**20


def keep_freed_memory() -> None:
    """Make glibc reuse freed buffers instead of returning them to the system.

    A chunk consists of buffers of some megabytes. By default each is mapped anew, and its page faults take a fifth of a
    consumer's CPU time. The peak memory does not change. Does nothing with other C libraries.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_TRIM_THRESHOLD, _TRIM_THRESHOLD_BYTES)
    mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES)
