"""Print the report on a site as a page."""

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
    "bounce_rate": "Bounces",
    "visit_duration": "Duration",
    "conversion_rate": "Converted",
}
_PANEL_WIDTH = 16
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
    days = report["period"]["days"]
    console.print(
        Columns([_make_metric_panel(name, report["metrics"][name], days) for name in _METRICS], padding=0)
    )
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
    counts = ("pageviews", "visitors", "visits")
    return not any(report["metrics"][name]["value"] for name in counts) and not any(
        report[name] for name in LISTS
    )


def _show_nothing(console: Console, report: dict[str, Any], tag: str) -> None:
    if any(value is not None for value in report["filters"].values()):
        console.print("No visits in these days with these filters. Remove a filter, or increase --days.")
        return
    console.print("No visits in these days. Put this into the head of the site's pages:")
    console.print()
    console.print(Text(f"  {tag}"), soft_wrap=True)
    console.print()
    site = report["site"]["id"]
    console.print(
        qualify_commands(
            f"Is it there already? `pharos site show {site}` shows the domains that may send events, and the dropped "
            "events."
        )
    )


def _make_metric_panel(name: str, metric: dict[str, float], days: int) -> Panel:
    text = Text(format_metric(name, metric["value"]), style="bold")
    if name == "visitors" and days > 1:
        # Visitors cannot be recognized across days, so the metric is a mean of days.
        text.append(" a day", style="not bold")
    text.append("\n").append_text(format_change(name, metric["change"]))
    text.append(f"\nbefore {format_metric(name, metric['previous'])}", style="not bold dim")
    return Panel(text, title=_METRICS[name], title_align="left", width=_PANEL_WIDTH, padding=(0, 0))


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


def format_change(name: str, change: float) -> Text:
    """Return an arrow and the change in percent, for rates in percentage points; green is better, red is worse."""
    if not change:
        return Text("= unchanged", style="dim")
    unit = "pp" if name.endswith("_rate") else "%"
    is_better = (change > 0) != (name in _LOWER_IS_BETTER)
    return Text(
        f"{'▲' if change > 0 else '▼'} {abs(change):,.1f} {unit}", style="green" if is_better else "red"
    )
