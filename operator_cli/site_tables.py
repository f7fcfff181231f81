"""Prints sites as tables."""

from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from operator_cli.durations import show_duration
from operator_cli.plain_text import cell, plain
from operator_cli.typed_commands import typed_commands


def show_sites(sites: list[dict[str, Any]]) -> None:
    """Each with where it is, and when it was last heard."""
    if not sites:
        print(typed_commands("No sites yet. `pharos site create --domain https://shop.example` makes one."))
        return
    table = Table("ID", "Name, tracker ID", "Domains", "Newest event", box=None, pad_edge=False)
    table.columns[0].no_wrap = table.columns[3].no_wrap = True
    # As long as a tracker ID: it is there to be copied.
    table.columns[1].min_width = 30
    for site in sites:
        table.add_row(
            str(site["id"]),
            Text("\n").join([cell(site["name"]), Text(site["tracker_id"], style="dim")]),
            Text("\n").join(cell(line) for line in _shortened(site["domains"])),
            _newest(site),
        )
    Console().print(table)


def _shortened(domains: list[str]) -> list[str]:
    if len(domains) <= 2:
        return domains
    return [domains[0], f"and {len(domains) - 1} more"]


def _newest(site: dict[str, Any]) -> Text:
    if site["verified"] is None:
        return Text("not known", style="dim")
    if not site["verified"]:
        return Text("none yet", style="yellow")
    since = datetime.now(UTC) - datetime.fromisoformat(site["last_event_at"])
    return Text(f"{show_duration(max(0, int(since.total_seconds())))} ago")


def show_site(site: dict[str, Any], tag: str) -> None:
    """All of one: how it is set, its goals, what was dropped, and the tag for its pages."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(Text(plain(site["name"]), style="bold"))
    for label, value in (
        ("tracker ID", site["tracker_id"]),
        ("project", f"{site['project']['name']} ({site['project']['id']})"),
        ("domains", "\n             ".join(site["domains"])),
        ("time zone", site["timezone"]),
        ("newest event", _newest(site).plain),
        ("dropped", _dropped(site["dropped"])),
        ("tag", tag),
    ):
        console.print(Text(f"{label:<12} {value}"))
    if not site["goals"]:
        console.print(
            typed_commands(f"No goals yet. `pharos site goal {site['id']} --event purchase` adds one.")
        )
        return
    table = Table("Goal", "Name", "Reached by", box=None, pad_edge=False)
    for goal in site["goals"]:
        by = f"event {goal['event']}" if goal["event"] is not None else f"page {goal['path']}"
        table.add_row(str(goal["id"]), cell(goal["name"]), cell(by))
    Console().print(table)


def _dropped(by_reason: dict[str, int] | None) -> str:
    """Events of the last 30 days that do not count."""
    if by_reason is None:
        return "not known"
    told = ", ".join(f"{count:,} {plain(reason).replace('_', ' ')}" for reason, count in by_reason.items())
    return f"{told} (events, last 30 days)" if told else "nothing in the last 30 days"
