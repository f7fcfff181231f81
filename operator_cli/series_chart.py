"""Draws page views by day or by hour as a chart of block characters."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from rich.console import Console
from rich.text import Text

from operator_cli.block_bars import columns

_HEIGHT = 6
_WIDEST = 6
_AXIS = " │"


def show_series(console: Console, series: Sequence[dict[str, Any]], interval: str) -> None:
    """At most as wide as the console: where there are more days than columns, several share one."""
    if not series:
        return
    together, values = _fit([entry["pageviews"] for entry in series], console.width)
    most = max(values)
    label = f"{most:,}"
    width = max(1, min(_WIDEST, (console.width - len(label) - len(_AXIS)) // len(values)))
    share = f", {together} {interval}s a column" if together > 1 else ""
    console.print(Text(f"Page views by {interval}{share}", style="bold"))
    for number, line in enumerate(columns(values, most, _HEIGHT, width)):
        axis = f"{label if number == 0 else '':>{len(label)}}{_AXIS}"
        console.print(Text.assemble((axis, "dim"), (line, "cyan")), no_wrap=True, crop=True)
    console.print(Text(f"{'0':>{len(label)}} └{'─' * (width * len(values))}", style="dim"), no_wrap=True)
    console.print(
        Text(" " * (len(label) + len(_AXIS)) + _ends(series, interval, width * len(values)), style="dim")
    )
    console.print()


def _fit(values: Sequence[int], width: int) -> tuple[int, list[int]]:
    """How many values share a column so that all of them fit beside the axis, and the columns."""
    for together in range(1, len(values)):
        merged = merge(values, together)
        if len(f"{max(merged):,}") + len(_AXIS) + len(merged) <= width:
            return together, merged
    return len(values), [sum(values)]


def merge(values: Sequence[int], together: int) -> list[int]:
    """Sums of so many values each, counted from the last one: today's column is as full as those before it."""
    first = len(values) % together
    starts = [*([0] if first else []), *range(first, len(values), together)]
    ends = [*starts[1:], len(values)]
    return [sum(values[start:end]) for start, end in zip(starts, ends, strict=True)]


def _ends(series: Sequence[dict[str, Any]], interval: str, width: int) -> str:
    """What the first and the last column are."""
    first, last = (_moment(entry["at"], interval) for entry in (series[0], series[-1]))
    if len(series) == 1:
        return first
    return f"{first}{last:>{max(width - len(first), len(last) + 1)}}"


def _moment(at: str, interval: str) -> str:
    if interval == "hour":
        return at[11:16]
    day = date.fromisoformat(at)
    return f"{day.day} {day:%b}"
