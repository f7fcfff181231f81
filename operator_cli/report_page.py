"""Prints the report on a site as a page."""

from typing import Any

from rich.columns import Columns
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from operator_cli.plain_text import plain
from operator_cli.report_tables import LISTS, show_goals, show_lists, show_page_speed
from operator_cli.series_chart import show_series
from operator_cli.typed_commands import typed_commands

_METRICS = {
    "visitors": "Visitors",
    "visits": "Visits",
    "pageviews": "Page views",
    "bounce_rate": "Bounces",
    "visit_duration": "Duration",
    "conversion_rate": "Converted",
}
_PANEL_WIDTH = 16
# Of all figures the one that is better when it falls.
_BETTER_LESS = ("bounce_rate",)


def show_report(console: Console, report: dict[str, Any], tag: str) -> None:
    """The document that the API gives. `tag`: what to put into the site's pages where nobody has come."""
    _show_head(console, report)
    if _is_empty(report):
        _show_nothing(console, report, tag)
        return
    days = report["period"]["days"]
    console.print(Columns([_metric(name, report["metrics"][name], days) for name in _METRICS], padding=0))
    console.print()
    show_series(console, report["series"], report["period"]["interval"])
    show_lists(console, report)
    show_goals(console, report["goals"])
    show_page_speed(console, report["page_speed"])


def _show_head(console: Console, report: dict[str, Any]) -> None:
    site, period = report["site"], report["period"]
    days = period["from"] if period["days"] == 1 else f"{period['from']} to {period['to']}"
    console.print(Text.assemble((plain(site["name"]), "bold"), f"  {days}  ", (period["timezone"], "dim")))
    filters = [f"{name} {plain(value)}" for name, value in report["filters"].items() if value is not None]
    if filters:
        console.print(Text(f"Visits with {', '.join(filters)}", style="cyan"))
    console.print()


def _is_empty(report: dict[str, Any]) -> bool:
    figures = ("pageviews", "visitors", "visits")
    return not any(report["metrics"][name]["value"] for name in figures) and not any(
        report[name] for name in LISTS
    )


def _show_nothing(console: Console, report: dict[str, Any], tag: str) -> None:
    if any(value is not None for value in report["filters"].values()):
        console.print("No visits in these days with these filters. Leave one out, or look at more --days.")
        return
    console.print("No visits in these days. Put this into the head of the site's pages:")
    console.print()
    console.print(Text(f"  {tag}"), soft_wrap=True)
    console.print()
    site = report["site"]["id"]
    console.print(
        typed_commands(
            f"It is there already? `pharos site show {site}` tells from which domains events are taken, and what was "
            "dropped."
        )
    )


def _metric(name: str, metric: dict[str, float], days: int) -> Panel:
    text = Text(show_value(name, metric["value"]), style="bold")
    if name == "visitors" and days > 1:
        # Visitors cannot be told from one day to the next: the figure is a mean of days.
        text.append(" a day", style="not bold")
    text.append("\n").append_text(show_change(name, metric["change"]))
    text.append(f"\nbefore {show_value(name, metric['previous'])}", style="not bold dim")
    return Panel(text, title=_METRICS[name], title_align="left", width=_PANEL_WIDTH, padding=(0, 0))


def show_value(name: str, value: float) -> str:
    """The figure as people write it."""
    if name == "visit_duration":
        return show_seconds(int(value))
    return f"{value:.1f} %" if name.endswith("_rate") else f"{value:,.0f}"


def show_seconds(seconds: int) -> str:
    """`1h 2m`, `1m 23s`, `45s`."""
    minutes, left = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes}m"
    return f"{minutes}m {left}s" if minutes else f"{left}s"


def show_change(name: str, change: float) -> Text:
    """An arrow and by how much: percent, of rates percentage points. Green is better, red is worse."""
    if not change:
        return Text("= unchanged", style="dim")
    unit = "pp" if name.endswith("_rate") else "%"
    is_better = (change > 0) != (name in _BETTER_LESS)
    return Text(
        f"{'▲' if change > 0 else '▼'} {abs(change):,.1f} {unit}", style="green" if is_better else "red"
    )
