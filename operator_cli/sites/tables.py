"""Print sites as tables."""

from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from operator_cli.durations import format_duration
from operator_cli.messages import qualify_commands
from operator_cli.terminal_text import make_cell, sanitize


def show_sites(sites: list[dict[str, Any]]) -> None:
    """Print sites with their domains and newest events."""
    if not sites:
        print(qualify_commands("No sites yet. `pharos site create --domain https://shop.example` makes one."))
        return
    table = Table("ID", "Name, tracker ID", "Domains", "Newest event", box=None, pad_edge=False)
    table.columns[0].no_wrap = table.columns[3].no_wrap = True
    # The length of a tracker ID, which people copy.
    table.columns[1].min_width = 30
    for site in sites:
        table.add_row(
            str(site["id"]),
            Text("\n").join([make_cell(site["name"]), Text(site["tracker_id"], style="dim")]),
            Text("\n").join(make_cell(line) for line in _shorten_domains(site["domains"])),
            _format_newest_event(site),
        )
    Console().print(table)


def _shorten_domains(domains: list[str]) -> list[str]:
    if len(domains) <= 2:
        return domains
    return [domains[0], f"and {len(domains) - 1} more"]


def _format_newest_event(site: dict[str, Any]) -> Text:
    if site["verified"] is None:
        return Text("not known", style="dim")
    if not site["verified"]:
        return Text("none yet", style="yellow")
    since = datetime.now(UTC) - datetime.fromisoformat(site["last_event_at"])
    return Text(f"{format_duration(max(0, int(since.total_seconds())))} ago")


def show_site(site: dict[str, Any], tag: str) -> None:
    """Print one site with its settings, goals, dropped events and script tag."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(Text(sanitize(site["name"]), style="bold"))
    for label, value in (
        ("tracker ID", site["tracker_id"]),
        ("project", f"{site['project']['name']} ({site['project']['id']})"),
        ("domains", "\n             ".join(site["domains"])),
        ("time zone", site["timezone"]),
        ("newest event", _format_newest_event(site).plain),
        ("dropped", _format_dropped(site["dropped"])),
        ("tag", tag),
    ):
        console.print(Text(f"{label:<12} {value}"))
    if not site["goals"]:
        console.print(
            qualify_commands(f"No goals yet. `pharos site goal {site['id']} --event purchase` adds one.")
        )
        return
    table = Table("Goal", "Name", "Reached by", box=None, pad_edge=False)
    for goal in site["goals"]:
        by = f"event {goal['event']}" if goal["event"] is not None else f"page {goal['path']}"
        table.add_row(str(goal["id"]), make_cell(goal["name"]), make_cell(by))
    Console().print(table)


def _format_dropped(by_reason: dict[str, int] | None) -> str:
    """Return the counts of dropped events of the last 30 days by reason."""
    if by_reason is None:
        return "not known"
    counts = ", ".join(
        f"{count:,} {sanitize(reason).replace('_', ' ')}" for reason, count in by_reason.items()
    )
    return f"{counts} (events, last 30 days)" if counts else "nothing in the last 30 days"
