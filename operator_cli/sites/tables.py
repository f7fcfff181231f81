"""Print sites as tables."""

import argparse
from typing import Any

from rich.console import Console
from rich.text import Text

from operator_cli.durations import format_age
from operator_cli.tables import Column, print_table
from operator_cli.terminal_text import make_cell, sanitize


def show_sites(arguments: argparse.Namespace, sites: list[dict[str, Any]]) -> None:
    """Print sites with their domains and newest events."""
    print_table(
        arguments,
        [
            Column("ID", is_number=True),
            Column("Name, tracker ID"),
            Column("Domains"),
            Column("Newest event", wraps=False),
        ],
        [
            (
                site["id"],
                Text("\n").join([make_cell(site["name"]), make_cell(site["tracker_id"], "dim")]),
                Text("\n").join(make_cell(line) for line in _shorten_domains(site["domains"])),
                _format_newest_event(site),
            )
            for site in sites
        ],
        empty="No sites yet. `pharos site create --domain https://shop.example` makes one.",
    )


def _shorten_domains(domains: list[str]) -> list[str]:
    if len(domains) <= 2:
        return domains
    return [domains[0], f"and {len(domains) - 1} more"]


def _format_newest_event(site: dict[str, Any]) -> Text:
    if site["verified"] is None:
        return Text("not known", style="dim")
    if not site["verified"]:
        return Text("none yet", style="yellow")
    return Text(format_age(site["last_event_at"]))


def show_site(arguments: argparse.Namespace, site: dict[str, Any], tag: str) -> None:
    """Print one site with its settings, `goals`, dropped events and script tag."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(Text(sanitize(site["name"]), style="bold"))
    for label, value in (
        ("ID", site["id"]),
        ("tracker ID", site["tracker_id"]),
        ("project", f"{site['project']['slug']} ({site['project']['id']})"),
        ("domains", "\n             ".join(site["domains"])),
        ("time zone", site["timezone"]),
        ("newest event", _format_newest_event(site).plain),
        ("dropped", _format_dropped(site["dropped_events"])),
        ("tag", tag),
    ):
        console.print(Text(f"{label:<12} {value}"))
    print()
    print_table(
        arguments,
        [Column("Goal"), Column("Reached by"), Column("ID", is_number=True)],
        [
            (
                goal["name"],
                f"event {goal['event']}" if goal["event"] is not None else f"page {goal['path']}",
                goal["id"],
            )
            for goal in site["goals"]
        ],
        empty=f"No goals yet. `pharos site goal {site['id']} --event purchase` adds one.",
    )


def _format_dropped(by_reason: dict[str, int] | None) -> str:
    """Return the counts of dropped events of the last 30 days by reason."""
    if by_reason is None:
        return "not known"
    counts = ", ".join(
        f"{count:,} {sanitize(reason).replace('_', ' ')}" for reason, count in by_reason.items()
    )
    if not counts:
        return "nothing in the last 30 days (counts can be 10 s old)"
    note = "; bot: headless and automated browsers do not count" if "bot" in by_reason else ""
    return f"{counts} (events, last 30 days; counts can be 10 s old{note})"
