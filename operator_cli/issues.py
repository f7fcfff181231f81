"""`pharos issues`: exceptions grouped into issues, or one issue with its newest stack."""

import argparse
import json
import re
from typing import Any

from operator_cli.ask import ask
from operator_cli.durations import show_moment
from operator_cli.failure import CommandFailed
from operator_cli.reading_arguments import WHICH_STORE, add_reading_arguments, nothing_found

_ID = re.compile(r"[0-9a-fA-F]{16}")


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = commands.add_parser(
        "issues",
        help="show exceptions grouped into issues",
        description="Exceptions of telemetry events, spans and log records, grouped by the sender's fingerprint, else "
        "by what they say without what changes from case to case and where they were raised. Affected are the users "
        "that an event tells, or the distinct user.id. After names the deployment that they first appeared after: "
        f"Pharos' own by its commit, recorded ones by their version. {WHICH_STORE}",
    )
    parser.add_argument("issue", nargs="?", metavar="ID", help="show this one with its newest stack")
    add_reading_arguments(parser, since="14d", lines=20)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.issue is not None and not _ID.fullmatch(arguments.issue):
        raise CommandFailed(f"{arguments.issue!r} is no issue's ID; `pharos issues` shows them.")
    issues = ask(
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
        print(nothing_found("exceptions", arguments))
    elif arguments.issue is None:
        _show_table(issues)
    else:
        _show_one(issues[0])
    return 0


def _title(issue: dict[str, Any]) -> str:
    return ": ".join(part for part in (issue["exception_type"], issue["newest_message"]) if part)


def _show_table(issues: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    from operator_cli.plain_text import cell

    table = Table("ID", box=None, pad_edge=False)
    table.add_column("Count", justify="right")
    table.add_column("Users", justify="right")
    for column in ("First seen", "Last seen", "After", "What"):
        table.add_column(column)
    table.columns[0].no_wrap = True
    for issue in issues:
        what = cell(_title(issue), most=120)
        if issue["top_frame"]:
            what.append_text(cell(f"\n{issue['top_frame']}", "dim", most=100))
        table.add_row(
            issue["id"],
            f"{issue['count']:,}",
            f"{issue['affected_users']:,}" if issue["affected_users"] else "-",
            show_moment(issue["first_seen"]),
            show_moment(issue["last_seen"]),
            cell(issue["first_deployment"] or "-", most=20),
            what,
        )
    Console().print(table)


def _show_one(issue: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.text import Text

    from operator_cli.plain_text import block, plain

    console = Console(highlight=False, soft_wrap=True)
    console.print(Text(plain(_title(issue)), style="bold"))
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
        console.print(Text(f"{label:<12} {plain(value)}"))
    for line in block(issue["newest_stack"]):
        console.print(Text(f"  {line}", style="dim"))
