"""Durations as people write and read them (90s, 30m, 2h, 14d), and moments as they read them."""

import argparse
from datetime import UTC, datetime

from pipeline_contracts import durations
from pipeline_contracts.durations import UNITS, BadDuration


def parse_duration(text: str) -> int:
    """Seconds; a number without a unit is seconds. Raises `argparse.ArgumentTypeError`."""
    try:
        return durations.parse_duration(text.strip())
    except BadDuration as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from None


def show_duration(seconds: float | None) -> str:
    """The duration in its two largest units, `1h 15m`; `-` for none."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{1000 * seconds:.0f}ms"
    if seconds < 60:
        return f"{seconds:.1f}s".replace(".0s", "s")
    left, parts = int(seconds), []
    for unit, size in UNITS.items():
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])


def show_moment(time: str | None) -> str:
    """Month, day, hour and minute of a time as answers have it; `-` for none."""
    return "-" if time is None else f"{time[5:10]} {time[11:16]}"


def show_second(time: str) -> str:
    """Month, day, hour, minute and second of a time as answers have it."""
    return f"{time[5:10]} {time[11:19]}"


def show_ago(time: str) -> str:
    """How long a time as answers have it has been over: `2h 5m ago`, or `now`."""
    seconds = int((datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds())
    return f"{show_duration(seconds)} ago" if seconds > 0 else "now"
