"""How this process's C library deals with memory that is freed."""

import ctypes
import sys

# malloc.h of glibc.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_KEEP_BYTES = 256 * 2**20
# Half of its largest heap: more than that not every glibc takes.
_FROM_HEAP_BYTES = 32 * 2**20


def keep_freed_memory() -> None:
    """Let glibc keep buffers that are freed, to be used again, in place of giving them back each time.

    A chunk is made of buffers of some megabytes. By default each is mapped anew, page fault by page fault: a fifth of
    the consumer's CPU. Peaks stay as they were; other C libraries are left as they are.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_TRIM_THRESHOLD, _KEEP_BYTES)
    mallopt(_M_MMAP_THRESHOLD, _FROM_HEAP_BYTES)
