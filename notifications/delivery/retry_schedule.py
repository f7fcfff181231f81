"""Computes when a message is retried after a failed attempt. Pure."""

import zlib
from datetime import datetime, timedelta

RETRY_FOR = timedelta(days=3)
"""How long a message is retried: a receiver that is down over a weekend still gets it."""

LONGEST_PAUSE = timedelta(hours=2)
"""No attempt is scheduled later than this: twice the longest pause below, to allow for jitter and differing clocks."""
_BACKOFF_SECONDS = (5.0, 30.0, 120.0, 600.0, 1800.0, 3600.0)
"""The pause after the first failure, the second, …; the last one repeats."""
_MAX_RETRY_AFTER_SECONDS = 3600.0
_JITTER = 0.1


def find_next_attempt(
    message_id: str, failures: int, since: datetime, now: datetime, retry_after: float | None = None
) -> datetime | None:
    """Return the time of the next attempt after this many failures (at least one), or None to give up.

    `since` is the time at which the message was written or requested again. `retry_after` is the wait in seconds that
    the receiver requested: it lengthens the pause, up to an hour, and never shortens it.
    """
    seconds = _BACKOFF_SECONDS[min(failures, len(_BACKOFF_SECONDS)) - 1]
    if retry_after is not None:
        seconds = max(seconds, cap_retry_after(retry_after))
    at = now + timedelta(seconds=seconds * (1 + _JITTER * _fraction(message_id, failures)))
    return at if at <= since + RETRY_FOR else None


def cap_retry_after(seconds: float) -> float:
    """Return the pause that Pharos makes if a receiver requests this one."""
    return max(0.0, min(seconds, _MAX_RETRY_AFTER_SECONDS))


def _fraction(message_id: str, failures: int) -> float:
    """Return a number from 0 to 1 that differs between messages. When a receiver goes down, all its messages fail at
    once, and must not be retried at once. The same message always has the same number, so tests need no random
    numbers."""
    return zlib.crc32(f"{message_id}/{failures}".encode()) / 2**32
