"""Parse and format durations (90s, 30m, 2h, 14d), and format times."""

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from pipeline_contracts import durations
from pipeline_contracts.durations import UNITS, BadDuration


def parse_duration(text: str) -> int:
    """Return seconds; a number without a unit is seconds. Raises `argparse.ArgumentTypeError`."""
    try:
        return durations.parse_duration(text.strip())
    except BadDuration as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from None


def parse_moment(text: str) -> datetime:
    """Return a time: `2026-11-20`, `2026-11-20T09:30Z` (in UTC without a time zone), or `2d` for two days ago. Raises
    `argparse.ArgumentTypeError`."""
    moment = parse_age_or_moment(text)
    return datetime.now(UTC) - moment if isinstance(moment, timedelta) else moment


def parse_age_or_moment(text: str) -> datetime | timedelta:
    """Return a time as `parse_moment`, or an age (`2d`) for a caller that knows the clock to count by. Raises
    `argparse.ArgumentTypeError`."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        try:
            age = timedelta(seconds=parse_duration(text))
            # An age may not reach back further than the earliest representable time.
            _ = datetime.now(UTC) - age
        except (argparse.ArgumentTypeError, OverflowError):
            raise argparse.ArgumentTypeError(
                f"{text!r} is neither a time (2026-11-20, 2026-11-20T09:30Z) nor a duration (90m, 2d)"
            ) from None
        return age
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def format_duration(seconds: float | None) -> str:
    """Return the duration in its two largest units, `1h 15m`; `-` for None."""
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


def encode_duration(seconds: int) -> str:
    """Return the duration in the form of the API, `90s` or `20000m`: a number of at most six digits."""
    return f"{seconds}s" if seconds < 1_000_000 else f"{-(-seconds // 60)}m"


def format_elapsed(seconds: float) -> str:
    """Return `3.2 s`, from a minute on `1m 4s`."""
    return f"{seconds:.1f} s" if seconds < 60 else format_duration(seconds)


def format_minute(time: str | None) -> str:
    """Return month, day, hour and minute of an ISO time; `-` for None."""
    return "-" if time is None else f"{time[5:10]} {time[11:16]}"


def format_utc_minute(time: str) -> str:
    """Return year, month, day, hour and minute of an ISO time: `2026-11-20 12:00 UTC`."""
    return f"{time[:10]} {time[11:16]} UTC"


def format_second(time: str) -> str:
    """Return month, day, hour, minute and second of an ISO time."""
    return f"{time[5:10]} {time[11:19]}"


def format_seconds(times: Sequence[str]) -> list[str]:
    """Return hour, minute and second of ISO times, with month and day if not all are of one day."""
    if len({time[:10] for time in times}) <= 1:
        return [time[11:19] for time in times]
    return [format_second(time) for time in times]


def format_age(time: str) -> str:
    """Return the age of an ISO time: `2h 5m ago`, or `now`."""
    seconds = int((datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds())
    return f"{format_duration(seconds)} ago" if seconds > 0 else "now"
