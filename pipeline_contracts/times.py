"""Times as answers and rows write them: UTC, RFC 3339, milliseconds, `Z`."""

from datetime import UTC, datetime, timedelta
from typing import Final

DAY_MS: Final = 86_400_000
"""Milliseconds of a day in UTC."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

EARLIEST: Final = datetime(1900, 1, 1, tzinfo=UTC)
"""What the column store's times hold begins here."""
AHEAD: Final = timedelta(hours=24)
"""How far ahead of its receipt a sender's time may be: a clock may be wrong by a day."""


def is_plausible(told: datetime, received: datetime) -> bool:
    """Whether a sender's time is stored as told: one from far ahead would stand at the top of every list."""
    return EARLIEST <= told <= received + AHEAD


def format_time(moment: datetime) -> str:
    """`2026-11-20T21:31:54.123Z`; a moment with another offset is brought to UTC first."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def from_epoch_ms(milliseconds: int) -> datetime:
    """The UTC moment this many milliseconds after 1970."""
    return _EPOCH + milliseconds * _MILLISECOND


def to_epoch_ms(moment: datetime) -> int:
    """Whole milliseconds from 1970, UTC, to the moment. Raises `ValueError` for one without a zone."""
    if moment.tzinfo is None:
        raise ValueError("a time needs its zone")
    # In whole numbers: seconds as a float times 1000 may fall just short of the millisecond.
    return (moment - _EPOCH) // _MILLISECOND
