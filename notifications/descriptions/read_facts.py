"""Reads the facts of an event and formats them as text. Facts from an older version may lack some keys."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from notifications.render.words import to_line

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The last moment of the year 9999, because `datetime` has no later times.
_LAST_MS = 253_402_300_799_000
TITLE_LENGTH = 200
_UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))


def read_text(facts: Mapping[str, Any], name: str, limit: int = 160) -> str | None:
    """Return the fact as one line of at most `limit` characters. None if it is missing or empty."""
    value = facts.get(name)
    if not isinstance(value, str):
        return None
    # Programs send these texts. A control character in a text must not make a message fail.
    return to_line(value, limit) or None


def read_number(facts: Mapping[str, Any], name: str) -> int | None:
    """Return the fact as a whole number. None if it is missing."""
    value = facts.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def read_time(facts: Mapping[str, Any], name: str) -> str | None:
    """Return a fact in milliseconds since 1970 as text, such as `26 Nov 2026, 03:00:20 UTC`. None if it is
    missing."""
    milliseconds = read_number(facts, name)
    if milliseconds is None or not 0 <= milliseconds <= _LAST_MS:
        return None
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    clock = f"{moment:%H:%M:%S}" if moment.second else f"{moment:%H:%M}"
    return f"{moment.day} {moment:%b %Y}, {clock} UTC"


def write_seconds(seconds: float) -> str:
    """Return a duration as text in its two largest units, such as `2 h 10 min`."""
    left, parts = max(0, round(seconds)), []
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
        elif parts:
            break
        if len(parts) == 2:
            break
    return " ".join(parts) or "0 s"


def count_noun(count: int, noun: str) -> str:
    """Return the number with the noun, such as `1 failure` or `3 failures`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def cut_title(title: str) -> str:
    """Return the title with at most 200 characters."""
    return title if len(title) <= TITLE_LENGTH else title[: TITLE_LENGTH - 1].rstrip() + "…"
