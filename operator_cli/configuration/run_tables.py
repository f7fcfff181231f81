"""Print configuration runs and their steps."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from operator_cli.configuration.diff import format_resource, format_step, open_console
from operator_cli.durations import format_age
from operator_cli.tables import Column, print_table
from operator_cli.terminal_text import sanitize

_COLOURS = {
    "pending": "cyan",
    "running": "cyan",
    "succeeded": "green",
    "failed": "bold red",
    "canceled": "dim",
}
_MAX_ERROR_LENGTH = 4000


def show_runs(
    arguments: argparse.Namespace, runs: Sequence[dict[str, Any]], projects: Mapping[int, str]
) -> None:
    """Print one line for each run. `projects` has the slugs by the ID of the run."""
    print_table(
        arguments,
        [
            Column("ID", is_number=True),
            Column("Project", wraps=False),
            Column("Status", wraps=False),
            Column("Operations"),
            Column("When", wraps=False),
        ],
        [
            (
                run["id"],
                projects[run["id"]],
                format_status(run["status"]),
                _describe_counts(run["counts"]),
                format_age(run["created_at"]),
            )
            for run in runs
        ],
        empty="No applications yet. `pharos config apply FILE` makes one.",
    )


def _describe_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[status]} {status}" for status in _COLOURS if status in counts)


def show_run(project: str, run: dict[str, Any]) -> None:
    """Print the status and times of a run, and each step with its changes and its status."""
    console = open_console()
    head = Text(f"Application {run['id']} of {project}: ", style="bold")
    console.print(head.append_text(format_status(run["status"])))
    finished = run["finished_at"] or "not yet"
    console.print(f"review {run['review_id']}, made {run['created_at']}, finished {finished}")
    for step in run["operations"]:
        console.print()
        console.print(Text(f"Operation {step['id']}: ").append_text(_format_state(step)))
        for line in format_step(step):
            console.print(line)


def _format_state(step: dict[str, Any]) -> Text:
    text = format_status(step["status"])
    if step["attempts"] > 1:
        text.append(f" at attempt {step['attempts']}")
    return text.append_text(_format_error(step))


def format_outcome(step: dict[str, Any]) -> Text:
    """Return the status, resource and error of a step on one line."""
    status = format_status(step["status"])
    status.append(" " * (max(map(len, _COLOURS)) - len(status) + 2))
    return status.append_text(format_resource(step)).append_text(_format_error(step))


def _format_error(step: dict[str, Any]) -> Text:
    error = step["error"]
    return Text("" if error is None else f": {sanitize(error, max_length=_MAX_ERROR_LENGTH)}")


def format_status(status: str) -> Text:
    """Return the coloured status of a run or a step."""
    # Style only this part, so that appended text keeps its own style.
    return Text().append(status, style=_COLOURS.get(status, ""))
