"""Durations as text: `90s`, `30m`, `2h`, `14d`."""

import re

UNITS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
"""Seconds of each, the largest first."""
_DURATION = re.compile("([0-9]{1,9})([smhd]?)")


class BadDuration(ValueError):
    """What is no duration; the message says what one looks like, without the text."""


def read_duration(text: str) -> int:
    """Seconds; a number without a unit is seconds. Raises `BadDuration`."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise BadDuration("is no duration; write 90s, 30m, 2h or 1d")
    return int(found[1]) * UNITS[found[2] or "s"]


def write_duration(seconds: int) -> str:
    """The one text of a duration: in the largest unit of which it is a whole number, `0s` for none."""
    for unit, size in UNITS.items():
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return "0s"
