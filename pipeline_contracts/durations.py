"""Parse and format durations: `90s`, `30m`, `2h`, `14d`."""

import re

UNITS = {"d": 86_400, "h": 3600, "m": 60, "s": 1}
"""Seconds of each unit, the largest first."""
_DURATION = re.compile("([0-9]{1,9})([smhd]?)")


class BadDuration(ValueError):
    """Text that is no duration. The message describes the format and does not repeat the text."""


def parse_duration(text: str) -> int:
    """Return a duration in seconds; a number without a unit is seconds. Raises `BadDuration`."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise BadDuration("is no duration; write 90s, 30m, 2h or 1d")
    return int(match[1]) * UNITS[match[2] or "s"]


def format_duration(seconds: int) -> str:
    """Write a duration in the largest unit that divides it; `0s` for 0."""
    for unit, size in UNITS.items():
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return "0s"
