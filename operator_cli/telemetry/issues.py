"""`pharos issues`: exceptions grouped into issues, or one issue with its newest stack."""

import argparse
import json
import re
from typing import Any

from operator_cli.control_client import WHICH_INSTALLATION_AND_STORE, request_action
from operator_cli.durations import format_minute
from operator_cli.errors import CommandFailed
from operator_cli.telemetry.reading_arguments import add_reading_arguments, describe_no_results

_ID = re.compile(r"[0-9a-fA-F]{16}")


def register_issues(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "issues",
        help="show exceptions grouped into issues",
        description="Exceptions of telemetry events, spans and log records, grouped by the sender's fingerprint, else "
        "by their message without variable parts and the place where they were raised. Users counts the affected users "
        "that an event reports, or distinct values of user.id. After is the deployment that they first appeared after: "
        f"Pharos' own by its commit, recorded ones by their version. {WHICH_INSTALLATION_AND_STORE}",
    )
    parser.add_argument("issue", nargs="?", metavar="ID", help="show this one with its newest stack")
    add_reading_arguments(parser, since="14d", lines=20)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.issue is not None and not _ID.fullmatch(arguments.issue):
        raise CommandFailed(f"{arguments.issue!r} is no issue's ID; `pharos issues` shows them.")
    issues = request_action(
        arguments,
        "issues/list",
        {
            "environment_id": arguments.environment,
            "since_seconds": arguments.since,
            "id": (arguments.issue or "").lower(),
            "limit": arguments.lines,
        },
    )
    if arguments.json:
        print(json.dumps(issues))
    elif not issues:
        print(describe_no_results("exceptions", arguments))
    elif arguments.issue is None:
        _show_table(issues)
    else:
        _show_one(issues[0])
    return 0


def _format_title(issue: dict[str, Any]) -> str:
    return ": ".join(part for part in (issue["exception_type"], issue["newest_message"]) if part)


def _show_table(issues: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    from operator_cli.terminal_text import make_cell

    table = Table("ID", box=None, pad_edge=False)
    table.add_column("Count", justify="right")
    table.add_column("Users", justify="right")
    for column in ("First seen", "Last seen", "After", "What"):
        table.add_column(column)
    table.columns[0].no_wrap = True
    for issue in issues:
        summary = make_cell(_format_title(issue), max_length=120)
        if issue["top_frame"]:
            summary.append_text(make_cell(f"\n{issue['top_frame']}", "dim", max_length=100))
        table.add_row(
            issue["id"],
            f"{issue['count']:,}",
            f"{issue['affected_users']:,}" if issue["affected_users"] else "-",
            format_minute(issue["first_seen"]),
            format_minute(issue["last_seen"]),
            make_cell(issue["first_deployment"] or "-", max_length=20),
            summary,
        )
    Console().print(table)


def _show_one(issue: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.text import Text

    from operator_cli.terminal_text import sanitize, sanitize_lines

    console = Console(highlight=False, soft_wrap=True)
    console.print(Text(sanitize(_format_title(issue)), style="bold"))
    for label, value in (
        ("count", f"{issue['count']:,}"),
        ("users", f"{issue['affected_users']:,}"),
        ("first seen", issue["first_seen"]),
        ("last seen", issue["last_seen"]),
        ("after", issue["first_deployment"] or "-"),
        ("services", ", ".join(issue["services"])),
        ("raised in", issue["top_frame"] or "-"),
        ("trace", issue["newest_trace_id"] or "-"),
        ("environment", issue["environment_id"]),
    ):
        console.print(Text(f"{label:<12} {sanitize(value)}"))
    for line in sanitize_lines(issue["newest_stack"]):
        console.print(Text(f"  {line}", style="dim"))
