"""When is a message sent again after a failed attempt? Pure."""

import zlib
from datetime import datetime, timedelta

RETRY_FOR = timedelta(days=3)
"""For how long a message is retried; a receiver that is down over a weekend still gets it."""

LONGEST_PAUSE = timedelta(hours=2)
"""No attempt is planned later than this: twice the longest pause below, for its jitter and clocks that differ."""
_BACKOFF_SECONDS = (5.0, 30.0, 120.0, 600.0, 1800.0, 3600.0)
"""After the first failure, the second, …; the last one repeats."""
_MAX_RETRY_AFTER_SECONDS = 3600.0
_JITTER = 0.1


def find_next_attempt(
    message_id: str, failures: int, since: datetime, now: datetime, retry_after: float | None = None
) -> datetime | None:
    """Return when to try again after this many failures, at least one; None: give up.

    `since` is when the message was written, or requested again. `retry_after` are the seconds that the receiver asked
    for: they lengthen the pause, up to an hour, and never shorten it.
    """
    seconds = _BACKOFF_SECONDS[min(failures, len(_BACKOFF_SECONDS)) - 1]
    if retry_after is not None:
        seconds = max(seconds, cap_retry_after(retry_after))
    at = now + timedelta(seconds=seconds * (1 + _JITTER * _fraction(message_id, failures)))
    return at if at <= since + RETRY_FOR else None


def cap_retry_after(seconds: float) -> float:
    """Return for how long Pharos obeys a receiver that asks for a pause."""
    return max(0.0, min(seconds, _MAX_RETRY_AFTER_SECONDS))


def _fraction(message_id: str, failures: int) -> float:
    """Return a number from 0 to 1 that differs between messages: all of them fail at once when a receiver goes down,
    and must not return at once. The same for the same message, so that tests need no random numbers."""
    return zlib.crc32(f"{message_id}/{failures}".encode()) / 2**32
