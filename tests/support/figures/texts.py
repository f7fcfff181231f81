"""Writes numbers as the pages do: a second implementation of `web_dashboard/source/src/format/` and of the functions of
areas."""

from collections.abc import Mapping
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any


def write_fixed(value: float, digits: int) -> str:
    """Return a number as `toFixed` of JavaScript writes it: a half goes up."""
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))


def write_local(value: float, digits: int) -> str:
    """Return a number as `Intl.NumberFormat('en')` writes it with at most this many digits."""
    text = f"{Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP):,}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def write_count(value: float | None) -> str:
    """Return a number as `formatCount` writes it; `–` for None."""
    return "–" if value is None else write_local(value, 0 if float(value).is_integer() else 2)


def write_short(value: float) -> str:
    """Return a number as `formatShort` writes it: `12.3K`."""
    for size, unit in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if value >= size:
            return f"{write_local(value / size, 1)}{unit}"
    return write_local(value, 1)


def write_share(value: float) -> str:
    """Return a share of 1 as `formatShare` writes it: `1.2 %`."""
    percent = value * 100
    return f"{write_fixed(percent, 1 if percent != 0 and abs(percent) < 10 else 0)} %"


def write_percent(value: float) -> str:
    """Return a percentage as the report writes it: `12.5 %`, `12 %`."""
    return f"{write_fixed(value, 1).removesuffix('.0')} %"


def write_bytes(value: float) -> str:
    """Return bytes as `formatBytes` writes them: `1.5 MiB`."""
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    unit = 0
    while value >= 1024 and unit < len(units) - 1:
        value, unit = value / 1024, unit + 1
    return f"{_round(value, 0 if unit == 0 or value >= 100 else 1)} {units[unit]}"


def write_duration(ms: float | None) -> str:
    """Return milliseconds as `formatDuration` writes them; `–` for None."""
    if ms is None:
        return "–"
    if ms < 1000:
        return f"{_round(ms, 2 if ms < 1 else 1 if ms < 10 else 0)} ms"
    if ms < 60_000:
        return f"{_round(ms / 1000, 2 if ms < 10_000 else 1)} s"
    seconds = int(ms / 1000 + 0.5)
    if seconds < 3600:
        return _two(seconds // 60, "min", seconds % 60, "s")
    minutes = int(seconds / 60 + 0.5)
    if minutes < 1440:
        return _two(minutes // 60, "h", minutes % 60, "min")
    hours = int(minutes / 60 + 0.5)
    return _two(hours // 24, "d", hours % 24, "h")


def write_seconds(seconds: float | None) -> str:
    """Return seconds as a page writes them; `–` for None."""
    return write_duration(None if seconds is None else seconds * 1000)


def write_between(begin: str, end: str | None) -> list[str]:
    """Return the duration between two times as `formatBetween` writes it; nothing without an end, which is now."""
    if end is None:
        return []
    return [write_duration(max(0, _milliseconds(end) - _milliseconds(begin)))]


def _milliseconds(time: str) -> int:
    """Return milliseconds since 1970, truncated as `Date` of JavaScript does."""
    moment = datetime.fromisoformat(time)
    return int(moment.timestamp()) * 1000 + moment.microsecond // 1000


def write_plural(count: float, singular: str, many: str = "") -> str:
    """Return a number with its noun, as `plural` writes it."""
    return f"{write_count(count)} {singular if count == 1 else many or singular + 's'}"


def write_rate(per_second: float, *, per_minute: bool | None = None) -> str:
    """Return a rate as `formatRate` writes it: `12.5 /s`, or `3 /min` for a small one."""
    if 0 < per_second < 0.1 if per_minute is None else per_minute:
        return f"{_trim(per_second * 60)} /min"
    return f"{_trim(per_second)} /s"


def write_workers(workers: Mapping[str, int]) -> str:
    """Return the workers of a queue: `2 busy, 1 idle`."""
    return (
        ", ".join(f"{workers[name]} {name}" for name in ("busy", "idle", "lost") if workers[name]) or "none"
    )


def write_place(document: Mapping[str, Any]) -> list[str]:
    """Return the project and the environment of an object, each of which may be missing."""
    names = [each["name"] for each in (document["project"], document["environment"]) if each is not None]
    return [" / ".join(names)] if names else []


def _trim(value: float) -> str:
    return write_local(value, 0 if value >= 100 else 1 if value >= 10 else 2)


def _round(value: float, digits: int) -> str:
    text = write_fixed(value, digits)
    return text.rstrip("0").rstrip(".") if "." in text else text


def _two(first: int, first_unit: str, second: int, second_unit: str) -> str:
    return f"{first} {first_unit}" if second == 0 else f"{first} {first_unit} {second} {second_unit}"
