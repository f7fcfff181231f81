"""Print the lists, the goals and the page speed of a report as tables."""

from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from operator_cli.sites.report_chart import draw_bar
from operator_cli.terminal_text import make_cell, sanitize

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
_BAR_WIDTH = 10
_MIN_NAME_WIDTH = 20
_TABLE_GAP = 2
# The width of a bar and two numbers, with gaps.
_NUMBERS_WIDTH = 40
_MIN_WIDTH_FOR_TWO = 88


def show_lists(console: Console, report: dict[str, Any]) -> None:
    """Print each list that has entries, two side by side on a wide console."""
    tables_per_row = 2 if console.width >= _MIN_WIDTH_FOR_TWO else 1
    width = (console.width - _TABLE_GAP * (tables_per_row - 1)) // tables_per_row
    tables = [
        _make_list_table(title, number, report[name], width)
        for name, (title, number) in LISTS.items()
        if report[name]
    ]
    for start in range(0, len(tables), tables_per_row):
        row = Table.grid(padding=(0, _TABLE_GAP, 0, 0), pad_edge=False)
        row.add_row(*tables[start : start + tables_per_row])
        console.print(row)
        console.print()


def measure_lists(report: dict[str, Any]) -> int:
    """Return the width at which `show_lists` and `show_goals` show each name in full."""
    entries = [entry for name in (*LISTS, "goals") for entry in report[name]]
    longest = max((cell_len(sanitize(entry["name"])) for entry in entries), default=0)
    return 2 * (longest + _NUMBERS_WIDTH) + _TABLE_GAP


def _make_list_table(title: str, number: str, entries: list[dict[str, Any]], width: int) -> Table:
    table = Table(box=None, pad_edge=False, width=width)
    table.add_column(
        Text(title, style="bold"), ratio=1, no_wrap=True, overflow="ellipsis", min_width=_MIN_NAME_WIDTH
    )
    table.add_column("", width=_BAR_WIDTH, no_wrap=True)
    table.add_column("Visitors", justify="right", no_wrap=True)
    table.add_column(_NUMBERS[number], justify="right", no_wrap=True)
    maximum = max(entry["visitors"] for entry in entries)
    for entry in entries:
        table.add_row(
            make_cell(entry["name"]),
            Text(draw_bar(entry["visitors"], maximum, _BAR_WIDTH), style="cyan"),
            f"{entry['visitors']:,}",
            f"{entry[number]:,}",
        )
    return table


def show_goals(console: Console, goals: list[dict[str, Any]]) -> None:
    """Print goals with their conversions and revenue."""
    if not goals:
        return
    table = Table(box=None, pad_edge=False, width=console.width)
    table.add_column(
        Text("Goals", style="bold"), ratio=1, no_wrap=True, overflow="ellipsis", min_width=_MIN_NAME_WIDTH
    )
    bar_width = _BAR_WIDTH if console.width >= _MIN_WIDTH_FOR_TWO else 0
    table.add_column("", width=bar_width, no_wrap=True)
    for column in ("Visitors", "Conversions", "Rate"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("Revenue", justify="right", no_wrap=True)
    maximum = max(goal["visitors"] for goal in goals)
    for goal in goals:
        table.add_row(
            make_cell(goal["name"]),
            Text(draw_bar(goal["visitors"], maximum, bar_width), style="cyan"),
            f"{goal['visitors']:,}",
            f"{goal['conversions']:,}",
            f"{goal['conversion_rate']:.1f} %",
            "\n".join(f"{sum_['amount']:,.2f} {sanitize(sum_['currency'])}" for sum_ in goal["revenue"])
            or "-",
        )
    console.print(table)
    console.print()


def show_page_speed(console: Console, speed: dict[str, dict[str, Any]]) -> None:
    """Print each measured Web Vital, coloured by its rating."""
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
