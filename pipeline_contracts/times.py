"""Convert times: datetimes, milliseconds since 1970, and text as in responses and rows (UTC, RFC 3339, `Z`)."""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

DAY_MS: Final = 86_400_000
"""Milliseconds of a UTC day."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

EARLIEST: Final = datetime(1900, 1, 1, tzinfo=UTC)
"""The earliest time that the column store can store."""
MAX_AHEAD: Final = timedelta(hours=24)
"""How far a sender's time may be ahead of its receipt: a clock may be wrong by a day."""


def is_plausible(sent: datetime, received: datetime) -> bool:
    """True if a sender's time may be stored as it is: a far future time would stay at the top of every list."""
    return EARLIEST <= sent <= received + MAX_AHEAD


def format_time(moment: datetime) -> str:
    """Write a time in UTC, like `2026-11-20T21:31:54.123Z`."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def format_optional_time(moment: datetime | None) -> str | None:
    """Write a time as `format_time` does; None stays None."""
    return None if moment is None else format_time(moment)


def from_epoch_ms(milliseconds: int) -> datetime:
    """Return the UTC time this many milliseconds after 1970."""
    return _EPOCH + milliseconds * _MILLISECOND


def format_epoch_ms(milliseconds: int) -> str:
    """Write a time as `format_time` does, from milliseconds since 1970. The records of a second share most of it."""
    second, rest = divmod(milliseconds, 1000)
    return f"{_format_second(second)}.{rest:03d}Z"


@lru_cache(64)
def _format_second(second: int) -> str:
    return from_epoch_ms(1000 * second).isoformat(timespec="seconds").removesuffix("+00:00")


def to_epoch_ms(moment: datetime) -> int:
    """Return whole milliseconds since 1970, UTC. Raises `ValueError` for a time without a zone."""
    if moment.tzinfo is None:
        raise ValueError("a time needs its zone")
    # In integers: float seconds times 1000 may be just below the millisecond.
    return (moment - _EPOCH) // _MILLISECOND
