"""The content of cursors of telemetry lists: the time range of the first page, and the key of the last row.

All pages have the time range of the first page, although `since` would mean a later range by then.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from analytics_queries.telemetry.time_range import TimeRange

Part = int | str


@dataclass(frozen=True, slots=True)
class RangeCursor:
    """A place in a list: numbers that are not negative, and texts. Only the last part may contain dots."""

    within: TimeRange
    parts: Sequence[Part]


def write_range_cursor(cursor: RangeCursor) -> str:
    """Return the text for the cursor; numbers are hexadecimal."""
    parts = (cursor.within.start, cursor.within.end, *cursor.parts)
    return ".".join(part if isinstance(part, str) else f"{part:x}" for part in parts)


def read_range_cursor(text: str, kinds: Sequence[type[Part]]) -> RangeCursor:
    """Return the parts of a text from `write_range_cursor`; `kinds` are their types."""
    start, end, *parts = text.split(".", 1 + len(kinds))
    read = [part if kind is str else int(part, 16) for kind, part in zip(kinds, parts, strict=True)]
    return RangeCursor(TimeRange(int(start, 16), int(end, 16)), read)
