"""Print configuration runs and their steps."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from operator_cli.configuration.diff import format_resource, format_step, open_console
from operator_cli.durations import format_age
from operator_cli.messages import qualify_commands
from operator_cli.terminal_text import sanitize

_COLOURS = {
    "pending": "cyan",
    "running": "cyan",
    "succeeded": "green",
    "failed": "bold red",
    "canceled": "dim",
}
_MAX_ERROR_LENGTH = 4000


def show_runs(runs: list[dict[str, Any]]) -> None:
    """Print one line for each run, newest first."""
    if not runs:
        print(qualify_commands("No applications yet. `pharos config apply FILE` makes one."))
        return
    table = Table("ID", "Project", "Status", "Operations", "When", box=None, pad_edge=False)
    table.columns[0].no_wrap = table.columns[-1].no_wrap = True
    for run in runs:
        counts = run["counts"]
        step_counts = [f"{counts[status]} {status}" for status in _COLOURS if status in counts]
        table.add_row(
            str(run["id"]),
            run["project"]["slug"],
            format_status(run["status"]),
            ", ".join(step_counts),
            format_age(run["created_at"]),
        )
    Console().print(table)


def show_run(run: dict[str, Any]) -> None:
    """Print the status and times of a run, and each step with its changes and its status."""
    console = open_console()
    head = Text(f"Application {run['id']} of {run['project']['slug']}: ", style="bold")
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
    # Styled as a part, so that appended text keeps its own style.
    return Text().append(status, style=_COLOURS.get(status, ""))
