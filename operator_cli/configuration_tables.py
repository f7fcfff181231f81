"""Prints applications of configuration documents, and their operations."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from operator_cli.configuration_diff import draw_action, draw_resource, open_console
from operator_cli.durations import show_ago
from operator_cli.plain_text import plain
from operator_cli.typed_commands import typed_commands

_COLOURS = {
    "pending": "cyan",
    "running": "cyan",
    "succeeded": "green",
    "failed": "bold red",
    "canceled": "dim",
}
_LONGEST_ERROR = 4000


def show_applications(applications: list[dict[str, Any]]) -> None:
    """One line each, newest first."""
    if not applications:
        print(typed_commands("No applications yet. `pharos config apply FILE` makes one."))
        return
    table = Table("ID", "Project", "Status", "Operations", "When", box=None, pad_edge=False)
    table.columns[0].no_wrap = table.columns[-1].no_wrap = True
    for application in applications:
        counts = application["counts"]
        told = [f"{counts[status]} {status}" for status in _COLOURS if status in counts]
        table.add_row(
            str(application["id"]),
            application["project"]["slug"],
            draw_status(application["status"]),
            ", ".join(told),
            show_ago(application["created_at"]),
        )
    Console().print(table)


def show_application(application: dict[str, Any]) -> None:
    """When it was made and ended, and each operation with what it changes and what became of it."""
    console = open_console()
    head = Text(f"Application {application['id']} of {application['project']['slug']}: ", style="bold")
    console.print(head.append_text(draw_status(application["status"])))
    finished = application["finished_at"] or "not yet"
    console.print(f"review {application['review_id']}, made {application['created_at']}, finished {finished}")
    for operation in application["operations"]:
        console.print()
        console.print(Text(f"Operation {operation['id']}: ").append_text(_draw_state(operation)))
        for line in draw_action(operation):
            console.print(line)


def _draw_state(operation: dict[str, Any]) -> Text:
    told = draw_status(operation["status"])
    if operation["attempts"] > 1:
        told.append(f" at attempt {operation['attempts']}")
    return told.append_text(_draw_error(operation))


def draw_end(operation: dict[str, Any]) -> Text:
    """What became of it, on one line."""
    status = draw_status(operation["status"])
    status.append(" " * (max(map(len, _COLOURS)) - len(status) + 2))
    return status.append_text(draw_resource(operation)).append_text(_draw_error(operation))


def _draw_error(operation: dict[str, Any]) -> Text:
    error = operation["error"]
    return Text("" if error is None else f": {plain(error, most=_LONGEST_ERROR)}")


def draw_status(status: str) -> Text:
    """Of an application or an operation."""
    # The style is of this part only: what is appended has its own.
    return Text().append(status, style=_COLOURS.get(status, ""))
