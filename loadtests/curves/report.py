"""Prints each curve as a table: a row for each x, and a column for each line of the curve."""

from rich.console import Console
from rich.table import Table

from loadtests.curves.points import CURVES, Results


def show_curves(console: Console, results: Results) -> None:
    """Print a table for each measured curve."""
    for name, value in results.machine.items():
        console.print(f"{name:<10} {value}", style="dim", highlight=False, soft_wrap=True)
    for name, curve in CURVES.items():
        lines = {line: results.values(name, line) for line in results.lines(name)}
        if not lines:
            continue
        title = f"{curve.title}: {curve.y}"
        table = Table(curve.x, title=title, title_justify="left", box=None, pad_edge=False)
        for line in lines:
            table.add_column(line, justify="right")
        for x in sorted({x for values in lines.values() for x in values}):
            table.add_row(f"{x:,.0f}", *(_short(values.get(x)) for values in lines.values()))
        console.print(table)
        console.print()


def _short(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
