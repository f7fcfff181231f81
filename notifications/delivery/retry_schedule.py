"""Computes when a message is sent again after a failed attempt. Does no I/O."""

import zlib
from datetime import datetime, timedelta

RETRY_FOR = timedelta(days=3)
"""For how long attempts are repeated: a receiver that is down over a weekend still gets the message."""

LONGEST_PAUSE = timedelta(hours=2)
"""No attempt is scheduled later than this. It is twice the longest pause below, to allow for jitter and for differing
clocks."""
_BACKOFF_SECONDS = (5.0, 30.0, 120.0, 600.0, 1800.0, 3600.0)
"""The pauses after the first failure, the second failure and so on. The last pause repeats."""
_MAX_RETRY_AFTER_SECONDS = 3600.0
_JITTER = 0.1


def find_next_attempt(
    message_id: str, failures: int, since: datetime, now: datetime, retry_after: float | None = None
) -> datetime | None:
    """Return the time of the next attempt after this many failures (at least one). None: give up.

    `since`: when the message was written or requested again. `retry_after`: how many seconds the receiver has asked to
    wait. It may lengthen the pause up to an hour, and never shortens it.
    """
    seconds = _BACKOFF_SECONDS[min(failures, len(_BACKOFF_SECONDS)) - 1]
    if retry_after is not None:
        seconds = max(seconds, cap_retry_after(retry_after))
    at = now + timedelta(seconds=seconds * (1 + _JITTER * _fraction(message_id, failures)))
    return at if at <= since + RETRY_FOR else None


def cap_retry_after(seconds: float) -> float:
    """Return how many seconds Pharos waits if a receiver asks to wait `seconds`."""
    return max(0.0, min(seconds, _MAX_RETRY_AFTER_SECONDS))


def _fraction(message_id: str, failures: int) -> float:
    """Return a number from 0 to 1 that differs between messages. If a receiver goes down, all its messages fail at
    once, and must not be retried all at once. The same message always gets the same number, so tests need no random
    numbers."""
    return zlib.crc32(f"{message_id}/{failures}".encode()) / 2**32
