"""Waits for what is promised within so many seconds, on a machine that may have no turn for it."""

import time
from collections.abc import Callable

_PAUSE_SECONDS = 0.02
_LONGEST_SECONDS = 0.1


def holds_within(
    seconds: float, condition: Callable[[], object], told: Callable[[], object] = lambda: ""
) -> float:
    """Look until it holds; gives the seconds that count. Raises AssertionError with what is told once these are over.

    A look counts as a tenth of a second at most, however long it took: in the rest of it the machine was busy
    elsewhere. Where it is not, looks are much shorter.
    """
    counted = 0.0
    before = time.monotonic()
    while not condition():
        assert counted < seconds, f"not within {seconds} s: {told()}"
        time.sleep(_PAUSE_SECONDS)
        now = time.monotonic()
        counted += min(now - before, _LONGEST_SECONDS)
        before = now
    return counted
