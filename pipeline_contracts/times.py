"""Times as answers and rows write them: UTC, RFC 3339, milliseconds, `Z`."""

from datetime import UTC, datetime


def format_time(moment: datetime) -> str:
    """`2026-11-20T21:31:54.123Z`; a moment with another offset is brought to UTC first."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def from_epoch_ms(milliseconds: int) -> datetime:
    """The UTC moment this many milliseconds after 1970."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def to_epoch_ms(moment: datetime) -> int:
    """Whole milliseconds from 1970, UTC, to the moment."""
    return int(moment.timestamp() * 1000)
