"""Print groups of exceptions."""

import argparse
from typing import Any

from rich.console import Console
from rich.text import Text

from operator_cli.durations import format_minute, format_utc_minute
from operator_cli.tables import Column, print_table
from operator_cli.telemetry.event_line import join_title
from operator_cli.terminal_text import make_cell, print_facts, sanitize_lines


def show_issues(arguments: argparse.Namespace, issues: list[dict[str, Any]], empty: str) -> None:
    """Print issues as a table."""
    all_open = all(_format_status(issue).plain == "open" for issue in issues)
    print_table(
        arguments,
        [
            Column("ID", is_id=True),
            Column("Count", is_number=True),
            Column("Users", is_number=True, is_optional=True),
            Column("Last seen", wraps=False),
            Column("What", min_width=38),
            Column("Status", wraps=False, is_optional=all_open),
            Column("After", wraps=False, is_optional=True),
            Column("Assignee", wraps=False, is_optional=True),
            Column("First seen", wraps=False, is_optional=True),
        ],
        [
            (
                issue["id"],
                f"{issue['count']:,}",
                f"{issue['affected_users']:,}" if issue["affected_users"] else None,
                format_minute(issue["last_seen"]),
                _format_summary(issue),
                # By default only open issues are listed.
                None if all_open and not getattr(arguments, "wide", False) else _format_status(issue),
                issue["first_deployment"] and make_cell(issue["first_deployment"]["version"], max_length=20),
                None if issue["assignee"] is None else issue["assignee"]["name"],
                format_minute(issue["first_seen"]),
            )
            for issue in issues
        ],
        empty=empty,
    )


def show_issue(arguments: argparse.Namespace, issue: dict[str, Any]) -> None:
    """Print one issue with its last stack, and its last exceptions in `events`."""
    assignee = issue["assignee"]
    print_facts(
        _format_title(issue),
        {
            "ID": issue["id"],
            "status": _describe_status(issue),
            "assignee": "nobody" if assignee is None else f"{assignee['name']} <{assignee['email']}>",
            "count": f"{issue['count']:,}",
            "users": f"{issue['affected_users']:,}",
            "first seen": _describe_first_seen(issue),
            "last seen": format_utc_minute(issue["last_seen"]),
            "services": ", ".join(issue["services"]) or "-",
            "raised in": issue["frame"] or "-",
            "trace": issue["trace_id"] or "-",
        },
    )
    console = Console(highlight=False, soft_wrap=True)
    for line in sanitize_lines(issue["stack"] or ""):
        console.print(Text(f"  {line}", style="dim"))
    print()
    print_table(
        arguments,
        [
            Column("At", wraps=False),
            Column("Message"),
            Column("Service", wraps=False, is_optional=True),
            Column("Version", wraps=False, is_optional=True),
            Column("User", wraps=False, is_optional=True),
            Column("Trace", is_id=True, is_optional=True),
        ],
        [
            (
                format_utc_minute(each["timestamp"]),
                each["message"],
                each["service"],
                each["version"],
                each["user"],
                each["trace_id"],
            )
            for each in issue["events"]
        ],
        empty="None of its exceptions is in this time range; --since looks further back.",
    )


def _describe_first_seen(issue: dict[str, Any]) -> str:
    first, time = issue["first_deployment"], format_utc_minute(issue["first_seen"])
    return time if first is None else f"{time}, after {first['version']} was deployed"


def _format_title(issue: dict[str, Any]) -> str:
    return join_title(issue["type"], issue["message"], ": ")


def _format_summary(issue: dict[str, Any]) -> Text:
    """Return the title, with the type without its module, and the innermost frame."""
    kind = (issue["type"] or "").rpartition(".")[2]
    summary = make_cell(_format_title({**issue, "type": kind}), max_length=120)
    if issue["frame"]:
        summary.append("\n").append_text(make_cell(issue["frame"], "dim", max_length=100))
    return summary


def _format_status(issue: dict[str, Any]) -> Text:
    if issue["regressed_at"] is not None:
        return Text("regressed", style="bold red")
    return make_cell(issue["status"], "" if issue["status"] == "open" else "dim")


def _describe_status(issue: dict[str, Any]) -> str:
    # The same form as in the list.
    status = "regressed" if issue["regressed_at"] is not None else str(issue["status"])
    if issue["resolved_at"] is not None:
        version = _format_deployment(issue["resolved_in"])
        resolved = f"resolved at {format_utc_minute(issue['resolved_at'])}"
        resolved += f" in {version}" if version != "-" else ""
        status = resolved if status == "resolved" else f"{status}; it was {resolved}"
    if issue["regressed_at"] is not None:
        status += f", and a newer release raised it at {format_utc_minute(issue['regressed_at'])}"
    return status


def _format_deployment(deployment: dict[str, Any] | None) -> str:
    return "-" if deployment is None else str(deployment["version"])
