"""Print the report on a site as a page."""

from collections.abc import Mapping
from typing import Any

from rich.columns import Columns
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from operator_cli.messages import qualify_commands
from operator_cli.sites.report_chart import show_series
from operator_cli.sites.report_tables import (
    LISTS,
    measure_lists,
    show_goals,
    show_lists,
    show_page_speed,
)
from operator_cli.terminal_text import sanitize

_METRICS = {
    "visitors": "Visitors",
    "visits": "Visits",
    "pageviews": "Page views",
    "bounce_rate": "Bounce rate",
    "visit_duration": "Duration",
    "conversion_rate": "Converted",
}
_MIN_PANEL_WIDTH = 16
_COUNTS = ("pageviews", "visitors", "visits")
# Metrics that improve when they fall.
_LOWER_IS_BETTER = ("bounce_rate",)


def make_console(report: dict[str, Any], *, is_wide: bool) -> Console:
    """Return the console of the terminal, or one on which the names in the lists are not cut."""
    console = Console(highlight=False)
    if is_wide:
        console.width = max(console.width, measure_lists(report))
    return console


def show_report(console: Console, report: dict[str, Any], tag: str) -> None:
    """Print the report document of the API. `tag` is the script tag to show if there are no visits."""
    _show_head(console, report)
    if is_empty(report):
        _show_nothing(console, report, tag)
        return
    # All next to each other, or two rows of the same length.
    per_row = len(_METRICS) if console.width >= len(_METRICS) * _MIN_PANEL_WIDTH else len(_METRICS) // 2
    width = max(_MIN_PANEL_WIDTH, min(console.width // per_row, 2 * _MIN_PANEL_WIDTH))
    console.print(Columns([_make_metric_panel(name, report, width) for name in _METRICS], padding=0))
    console.print()
    show_series(console, report["series"], report["period"]["interval"])
    show_lists(console, report)
    show_goals(console, report["goals"])
    show_page_speed(console, report["page_speed"])


def _show_head(console: Console, report: dict[str, Any]) -> None:
    site, period = report["site"], report["period"]
    days = period["from"] if period["days"] == 1 else f"{period['from']} to {period['to']}"
    console.print(Text.assemble((sanitize(site["name"]), "bold"), f"  {days}  ", (period["timezone"], "dim")))
    filters = [f"{name} {sanitize(value)}" for name, value in report["filters"].items() if value is not None]
    if filters:
        console.print(Text(f"Visits with {', '.join(filters)}", style="cyan"))
    console.print()


def is_empty(report: dict[str, Any]) -> bool:
    """Return True for a report without visits."""
    return not any(report["metrics"][name]["value"] for name in _COUNTS) and not any(
        report[name] for name in LISTS
    )


def _show_nothing(console: Console, report: dict[str, Any], tag: str) -> None:
    if any(value is not None for value in report["filters"].values()):
        console.print("No visits in these days with these filters. Remove a filter, or increase --days.")
        return
    console.print("No visitors yet in these days. Put this tag into the head of the site's pages:")
    console.print()
    console.print(Text(f"  {tag}"), soft_wrap=True)
    console.print()
    site = report["site"]["id"]
    console.print(
        qualify_commands(
            f"If the pages have the tag already: `pharos site show {site}` shows which domains may send events, and "
            "how many events were dropped."
        )
    )


def _make_metric_panel(name: str, report: dict[str, Any], width: int) -> Panel:
    metrics = report["metrics"]
    metric = metrics[name]
    # Without earlier visits, every rate and duration before is 0 because there was nothing to measure.
    had_visits = any(metrics[count]["previous"] for count in _COUNTS)
    text = Text(style="bold").append_text(_format_value(name, report))
    text.append("\n").append_text(format_change(name, metric, had_visits=had_visits))
    before = f"before {format_metric(name, metric['previous'])}" if had_visits else "none before"
    text.append(f"\n{before}", style="not bold dim")
    return Panel(text, title=_METRICS[name], title_align="left", width=width, padding=(0, 0))


def _format_value(name: str, report: dict[str, Any]) -> Text:
    """Return the value with its unit. Visitors cannot be recognized across days, so they are a mean of the days."""
    value = report["metrics"][name]["value"]
    if name != "visitors" or report["period"]["days"] == 1:
        return Text(format_metric(name, value))
    # The mean is rounded: a few visitors in a month are 0 a day.
    is_rounded = not value and report["metrics"]["visits"]["value"]
    return Text.assemble("under 1" if is_rounded else format_metric(name, value), (" a day", "not bold"))


def format_metric(name: str, value: float) -> str:
    """Return the value with its unit."""
    if name == "visit_duration":
        return format_seconds(int(value))
    return f"{value:.1f} %" if name.endswith("_rate") else f"{value:,.0f}"


def format_seconds(seconds: int) -> str:
    """Return `1h 2m`, `1m 23s` or `45s`."""
    minutes, left = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h {minutes}m"
    return f"{minutes}m {left}s" if minutes else f"{left}s"


def format_change(name: str, metric: Mapping[str, float], *, had_visits: bool) -> Text:
    """Return an arrow and the change in percent, for rates in percentage points; green is better, red is worse.

    `had_visits`: there were visits in the days before. A change from nothing has no number.
    """
    change, is_rate = metric["change"], name.endswith("_rate")
    if not had_visits:
        return Text("new" if name in _COUNTS or metric["value"] else "-", style="dim")
    if not change:
        return Text("= unchanged", style="dim")
    is_better = (change > 0) != (name in _LOWER_IS_BETTER)
    text = Text("▲" if change > 0 else "▼", style="green" if is_better else "red")
    if metric["previous"] or is_rate:
        text.append(f" {abs(change):,.1f} {'points' if is_rate else '%'}")
    return text
