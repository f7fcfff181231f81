"""Print incidents."""

import argparse
from typing import Any

from rich.text import Text

from notifications.message import Figure
from notifications.render.words import write_figure
from operator_cli.durations import format_age, format_utc_minute
from operator_cli.notifications.find import format_place
from operator_cli.notifications.notification_tables import show_notifications
from operator_cli.tables import Column, print_table
from operator_cli.terminal_text import print_facts, sanitize

_COLOURS = {"critical": "bold red", "warning": "yellow", "info": "cyan"}


def show_incidents(arguments: argparse.Namespace, incidents: list[dict[str, Any]], empty: str) -> None:
    """Print one line for each incident."""
    print_table(
        arguments,
        [
            Column("ID", is_id=True, made_together=True),
            Column("Severity", wraps=False),
            Column("State", wraps=False),
            Column("Began", wraps=False),
            Column("What"),
            Column("Where", is_optional=True),
            Column("Kind", wraps=False, is_optional=True),
        ],
        [
            (
                incident["id"],
                _format_severity(incident),
                _format_state(incident),
                format_age(incident["started_at"]),
                incident["title"],
                format_place(incident),
                incident["kind"],
            )
            for incident in incidents
        ],
        empty=empty,
    )


def show_incident(arguments: argparse.Namespace, incident: dict[str, Any]) -> None:
    """Print one incident with its newest notifications."""
    facts = {
        "ID": incident["id"],
        "state": _format_state(incident).plain,
        "severity": incident["severity"],
        "kind": incident["kind"],
        "where": format_place(incident),
        "began": f"{format_utc_minute(incident['started_at'])}, {format_age(incident['started_at'])}",
    }
    if incident["resolved_at"] is not None:
        facts["ended"] = format_utc_minute(incident["resolved_at"])
    if incident["acknowledged_at"] is not None:
        by = incident["acknowledged_by"]
        who = "through a link" if by is None else f"by {by['email']}"
        facts["acknowledged"] = f"{format_utc_minute(incident['acknowledged_at'])} {who}"
    if incident["silenced_until"] is not None:
        facts["silenced"] = f"until {format_utc_minute(incident['silenced_until'])}"
    for figure in incident["figures"]:
        name, value = write_figure(Figure(**figure))
        facts[name] = f"was {value}" if incident["state"] == "resolved" else value
    if (deployment := incident["deployment"]) is not None:
        facts["deployment"] = _format_deployment(deployment)
    if incident["command"]:
        facts["look closer"] = incident["command"]
    print_facts(incident["title"], facts)
    for line in incident["details"]:
        print(sanitize(line))
    print()
    show_notifications(arguments, incident["notifications"], _explain_nothing_sent(incident))


def _explain_nothing_sent(incident: dict[str, Any]) -> str:
    if incident["state"] != "firing":
        return "Nothing was sent of it."
    if incident["silenced_until"] is not None:
        return "Nothing was sent of it: it is silenced."
    return (
        "Nothing was sent of it yet. The first message waits for further incidents, and\n"
        "for the end of quiet hours. `pharos rules` shows the recipients of incidents."
    )


def _format_state(incident: dict[str, Any]) -> Text:
    if incident["state"] != "firing":
        # An event without an end ends at once.
        return Text("resolved" if incident["state"] == "resolved" else "event", style="dim")
    state = "open" if incident["acknowledged_at"] is None else "acknowledged"
    if incident["silenced_until"] is not None:
        return Text("silenced", style="dim")
    return Text(state, style=_COLOURS.get(incident["severity"], ""))


def _format_severity(incident: dict[str, Any]) -> Text:
    severity = incident["severity"]
    return Text(severity, style=_COLOURS.get(severity, "") if incident["state"] == "firing" else "dim")


def _format_deployment(deployment: dict[str, Any]) -> str:
    """Return the deployment before the incident on one line."""
    parts = [
        f"{deployment['number']}",
        (deployment["revision"] or "")[:12],
        deployment["subject"] or "",
        "" if deployment["finished_at"] is None else format_utc_minute(deployment["finished_at"]),
    ]
    return ", ".join(part for part in parts if part)
