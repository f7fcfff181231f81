"""Prints the lists, the goals and the page speed of a report as tables."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from operator_cli.block_bars import bar
from operator_cli.plain_text import cell, plain

LISTS = {
    "pages": ("Pages", "pageviews"),
    "sources": ("Sources", "visits"),
    "entry_pages": ("Entry pages", "visits"),
    "exit_pages": ("Exit pages", "visits"),
    "campaigns": ("Campaigns", "visits"),
    "countries": ("Countries", "visits"),
    "devices": ("Devices", "visits"),
    "browsers": ("Browsers", "visits"),
    "operating_systems": ("Operating systems", "visits"),
    "outbound_links": ("Outbound links", "events"),
    "file_downloads": ("File downloads", "events"),
    "missing_pages": ("Missing pages (404)", "events"),
}
_NUMBERS = {"pageviews": "Views", "visits": "Visits", "events": "Events"}
_SPEED = {
    "lcp": "Largest Contentful Paint",
    "inp": "Interaction to Next Paint",
    "cls": "Cumulative Layout Shift",
    "fcp": "First Contentful Paint",
    "ttfb": "Time to First Byte",
}
_RATINGS = {"good": "green", "needs-improvement": "yellow", "poor": "red"}
_BAR = 10
_NAME = 20
_GAP = 2
_SIDE_BY_SIDE = 88


def show_lists(console: Console, report: dict[str, Any]) -> None:
    """Each list that has entries, two side by side where there is room."""
    abreast = 2 if console.width >= _SIDE_BY_SIDE else 1
    width = (console.width - _GAP * (abreast - 1)) // abreast
    tables = [
        _list(title, number, report[name], width) for name, (title, number) in LISTS.items() if report[name]
    ]
    for start in range(0, len(tables), abreast):
        row = Table.grid(padding=(0, _GAP, 0, 0), pad_edge=False)
        row.add_row(*tables[start : start + abreast])
        console.print(row)
        console.print()


def _list(title: str, number: str, entries: list[dict[str, Any]], width: int) -> Table:
    table = Table(box=None, pad_edge=False, width=width)
    table.add_column(Text(title, style="bold"), ratio=1, no_wrap=True, overflow="ellipsis", min_width=_NAME)
    table.add_column("", width=_BAR, no_wrap=True)
    table.add_column("Visitors", justify="right", no_wrap=True)
    table.add_column(_NUMBERS[number], justify="right", no_wrap=True)
    most = max(entry["visitors"] for entry in entries)
    for entry in entries:
        table.add_row(
            cell(entry["name"]),
            Text(bar(entry["visitors"], most, _BAR), style="cyan"),
            f"{entry['visitors']:,}",
            f"{entry[number]:,}",
        )
    return table


def show_goals(console: Console, goals: list[dict[str, Any]]) -> None:
    """How often each was reached, and what it has brought."""
    if not goals:
        return
    table = Table(box=None, pad_edge=False, width=console.width)
    table.add_column(Text("Goals", style="bold"), ratio=1, no_wrap=True, overflow="ellipsis", min_width=_NAME)
    bar_width = _BAR if console.width >= _SIDE_BY_SIDE else 0
    table.add_column("", width=bar_width, no_wrap=True)
    for column in ("Visitors", "Conversions", "Rate"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("Revenue", justify="right", no_wrap=True)
    most = max(goal["visitors"] for goal in goals)
    for goal in goals:
        table.add_row(
            cell(goal["name"]),
            Text(bar(goal["visitors"], most, bar_width), style="cyan"),
            f"{goal['visitors']:,}",
            f"{goal['conversions']:,}",
            f"{goal['conversion_rate']:.1f} %",
            "\n".join(f"{sum_['amount']:,.2f} {plain(sum_['currency'])}" for sum_ in goal["revenue"]) or "-",
        )
    console.print(table)
    console.print()


def show_page_speed(console: Console, speed: dict[str, dict[str, Any]]) -> None:
    """Each Web Vital that was measured, coloured by its rating."""
    measured = {name: vital for name, vital in speed.items() if vital["p75"] is not None}
    if not measured:
        return
    table = Table(box=None, pad_edge=False)
    table.add_column(Text("Page speed (p75)", style="bold"))
    for column in ("Value", "Samples"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("Rating", no_wrap=True)
    for name, vital in measured.items():
        style = _RATINGS.get(vital["rating"], "")
        value = f"{vital['p75']:,.0f} ms" if vital["unit"] == "ms" else f"{vital['p75']:.3f}"
        table.add_row(
            Text(f"{name.upper():<5}{_SPEED.get(name, '')}"),
            Text(value, style=style),
            f"{vital['samples']:,}",
            Text(vital["rating"].replace("-", " "), style=style),
        )
    console.print(table)
