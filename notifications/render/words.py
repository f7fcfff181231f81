"""Formats the numbers, times and durations in messages, and turns texts from users into one harmless line."""

import unicodedata
from datetime import UTC, datetime

from notifications.message import Figure

_UNITS = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
_LONGEST_ABBREVIATION = 3
_JOINERS = "\u200c\u200d"
"""Invisible characters that are parts of letters and emoji."""


def to_line(text: str, limit: int) -> str:
    """Return the text as one line of at most `limit` characters, without control characters and without characters
    that change the text direction. Users and programs choose such texts, for example names of heartbeats and messages
    of exceptions."""
    spaced = " ".join(text[: limit * 4].split())
    line = spaced
    if not spaced.isprintable():
        line = "".join(
            character
            for character in spaced
            if character in _JOINERS or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co")
        )
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def write_time(text: str) -> str:
    """Return the time in a form such as `26 Nov 2026, 03:00 UTC`. If the text is not a time, return the text
    itself."""
    try:
        moment = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return to_line(text, 40)
    return f"{moment.day} {moment:%b %Y, %H:%M} UTC"


def write_span(start: str, end: str) -> str:
    """Return the span in a form such as `26 Nov 2026, 03:00 to 05:10 UTC`. If the days differ, both are named."""
    first, last = write_time(start), write_time(end)
    day, _, clock = last.partition(", ")
    if first.startswith(f"{day}, "):
        return f"{first.removesuffix(' UTC')} to {clock}"
    return f"{first.removesuffix(' UTC')} to {last}"


def seconds_between(start: str, end: str) -> float | None:
    """Return the number of seconds between two times, at least zero. None if one of the times is unreadable."""
    try:
        return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())
    except (TypeError, ValueError):
        return None


def write_duration(seconds: float) -> str:
    """Return a duration in its two largest units, such as `2 h 10 min`."""
    if seconds < 1:
        return f"{write_number(seconds * 1000)} ms"
    left, parts = round(seconds), []
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count:,} {unit}")
        elif parts:
            break
    return " ".join(parts[:2])


def write_number(value: float) -> str:
    """Return a number with thousands separators. A small number has three significant digits. Examples: `12,345`,
    `0.0524`."""
    if value != value or value in (float("inf"), float("-inf")):
        return "no number"
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.3g}"
    return f"{value:.3g}"


def write_value(value: float, unit: str) -> str:
    """Return a number with its unit, such as `7.2%`, `1 h 15 min` or `42 jobs`."""
    if unit == "s" and 0 <= value < 1e10:
        return write_duration(value) if value else "0 s"
    number = write_number(value)
    if number == "1" and unit.isalpha() and len(unit) > _LONGEST_ABBREVIATION:
        unit = unit.removesuffix("s")
    return f"{number}{unit}" if unit == "%" else f"{number} {unit}".rstrip()


def write_figure(figure: Figure) -> tuple[str, str]:
    """Return the name of a figure, and its value together with the threshold."""
    unit = to_line(figure.unit, 20)
    value = write_value(figure.value, unit)
    if figure.threshold is not None:
        value += f" (threshold {write_value(figure.threshold, unit)})"
    return to_line(figure.name, 80), value
