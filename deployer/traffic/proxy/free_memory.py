"""Gives memory back to the system after many requests have ended.

The C library keeps the pages that buffers have left behind, unless it is asked to return them.
"""

import ctypes
import sys
from collections.abc import Callable

# Fewer leave too little behind.
_ENDED_REQUESTS = 100


class FreeMemory:
    """Counts the open requests, and tells when a wave of them has ended."""

    def __init__(self) -> None:
        self._peak = 0

    def is_due(self, count: int) -> bool:
        """Whether so many requests have ended since the last time that their memory is worth returning.

        `count`: how many are open. To be asked periodically.
        """
        self._peak = max(self._peak, count)
        if self._peak - count < max(_ENDED_REQUESTS, self._peak // 2):
            return False
        self._peak = count
        return True


def find_trim() -> Callable[[int], int] | None:
    """The C library's `malloc_trim`; None where it has none. It takes milliseconds, without the interpreter's lock."""
    if not sys.platform.startswith("linux"):
        return None
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim
