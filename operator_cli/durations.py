"""Durations as people write and read them (90s, 30m, 2h, 14d), and moments as they read them."""

import argparse
import re
from datetime import UTC, datetime

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(\d{1,9})([smhd]?)")


def parse_duration(text: str) -> int:
    """Seconds; a number without a unit is seconds. Raises `argparse.ArgumentTypeError`."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration; write 90s, 30m, 2h or 1d")
    return int(found[1]) * _UNITS[found[2] or "s"]


def show_duration(seconds: float | None) -> str:
    """The duration in its two largest units, `1h 15m`; `-` for none."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{1000 * seconds:.0f}ms"
    if seconds < 60:
        return f"{seconds:.1f}s".replace(".0s", "s")
    left, parts = int(seconds), []
    for unit, size in reversed(_UNITS.items()):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])


def show_moment(time: str | None) -> str:
    """Month, day, hour and minute of a time as answers have it; `-` for none."""
    return "-" if time is None else f"{time[5:10]} {time[11:16]}"


def show_ago(time: str) -> str:
    """How long a time as answers have it has been over: `2h 5m ago`, or `now`."""
    seconds = int((datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds())
    return f"{show_duration(seconds)} ago" if seconds > 0 else "now"
