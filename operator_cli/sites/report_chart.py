"""Draw page views by day or by hour as a chart of block characters."""

import math
from collections.abc import Sequence
from datetime import date
from typing import Any

from rich.console import Console
from rich.text import Text

_HEIGHT = 6
_MAX_COLUMN_WIDTH = 6
_AXIS = " │"


def show_series(console: Console, series: Sequence[dict[str, Any]], interval: str) -> None:
    """Print the page views, with several days or hours in a column if the console is too narrow for one each."""
    if not series:
        return
    per_column, values = _fit_columns([entry["pageviews"] for entry in series], console.width)
    maximum = max(values)
    label = f"{maximum:,}"
    width = max(1, min(_MAX_COLUMN_WIDTH, (console.width - len(label) - len(_AXIS)) // len(values)))
    share = f", {per_column} {interval}s a column" if per_column > 1 else ""
    console.print(Text(f"Page views by {interval}{share}", style="bold"))
    for number, line in enumerate(draw_columns(values, maximum, _HEIGHT, width)):
        axis = f"{label if number == 0 else '':>{len(label)}}{_AXIS}"
        console.print(Text.assemble((axis, "dim"), (line, "cyan")), no_wrap=True, crop=True)
    console.print(Text(f"{'0':>{len(label)}} └{'─' * (width * len(values))}", style="dim"), no_wrap=True)
    console.print(
        Text(
            " " * (len(label) + len(_AXIS)) + _format_axis_labels(series, interval, width * len(values)),
            style="dim",
        )
    )
    console.print()


def _fit_columns(values: Sequence[int], width: int) -> tuple[int, list[int]]:
    """Return the number of values per column with which all fit next to the axis, and the sum of each column."""
    for per_column in range(1, len(values)):
        merged = merge_values(values, per_column)
        if len(f"{max(merged):,}") + len(_AXIS) + len(merged) <= width:
            return per_column, merged
    return len(values), [sum(values)]


def merge_values(values: Sequence[int], per_column: int) -> list[int]:
    """Return sums of `per_column` values, counted from the last one so that the last column is complete."""
    first = len(values) % per_column
    starts = [*([0] if first else []), *range(first, len(values), per_column)]
    ends = [*starts[1:], len(values)]
    return [sum(values[start:end]) for start, end in zip(starts, ends, strict=True)]


def _format_axis_labels(series: Sequence[dict[str, Any]], interval: str, width: int) -> str:
    """Return the labels of the first and the last column."""
    first, last = (_format_time(entry["at"], interval) for entry in (series[0], series[-1]))
    if len(series) == 1:
        return first
    return f"{first}{last:>{max(width - len(first), len(last) + 1)}}"


def _format_time(at: str, interval: str) -> str:
    if interval == "hour":
        return at[11:16]
    day = date.fromisoformat(at)
    return f"{day.day} {day:%b}"


_HORIZONTAL_BLOCKS = " ▏▎▍▌▋▊▉█"
_VERTICAL_BLOCKS = " ▁▂▃▄▅▆▇█"
_STEPS = 8


def draw_bar(value: float, maximum: float, width: int) -> str:
    """Return a horizontal bar of `width` characters for `maximum`. A value above 0 has a visible bar."""
    if value <= 0 or maximum <= 0 or width <= 0:
        return ""
    eighths = max(1, round(min(value / maximum, 1) * width * _STEPS))
    whole, rest = divmod(eighths, _STEPS)
    return "█" * whole + (_HORIZONTAL_BLOCKS[rest] if rest else "")


def draw_columns(values: Sequence[float], maximum: float, height: int, width: int) -> list[str]:
    """Return the lines of a chart, top first, with a vertical bar of `width` characters for each value.

    From a width of 2 on, the last character of a bar is a gap.
    """
    filled = [
        max(1, math.ceil(value / maximum * height * _STEPS)) if value > 0 < maximum else 0 for value in values
    ]
    gap = " " if width > 1 else ""
    lines = []
    for line in reversed(range(height)):
        steps = [min(_STEPS, max(0, eighths - line * _STEPS)) for eighths in filled]
        lines.append("".join(_VERTICAL_BLOCKS[step] * (width - len(gap)) + gap for step in steps).rstrip())
    return lines
