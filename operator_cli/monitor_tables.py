"""Prints heartbeats and queues as tables."""

from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from operator_cli.durations import show_duration, show_moment, show_second
from operator_cli.typed_commands import typed_commands

_COLOURS = {
    "up": "green",
    "running": "cyan",
    "late": "yellow",
    "down": "bold red",
    "unknown": "magenta",
    "succeeded": "green",
    "open": "cyan",
    "failed": "bold red",
    "timed out": "bold red",
    "busy": "cyan",
    "lost": "bold red",
}


def show_heartbeats(heartbeats: list[dict[str, Any]]) -> None:
    """One line each: what it is, how it is, and when it was last well."""
    if not heartbeats:
        print(typed_commands("No heartbeats yet. `pharos heartbeat create NAME --period 1h` makes one."))
        return
    table = Table("ID", "Name", "State", "Since", "Schedule", "Success", "Due", box=None, pad_edge=False)
    table.add_column("Failed", justify="right")
    for column in (2, 3, 5, 6):
        table.columns[column].no_wrap = True
    for heartbeat in heartbeats:
        table.add_row(
            str(heartbeat["id"]),
            Text(heartbeat["name"]),
            _coloured(heartbeat["state"]),
            _ago(heartbeat["since"]),
            schedule(heartbeat),
            _ago(heartbeat["last_success_at"]),
            show_moment(heartbeat["due_at"]),
            str(heartbeat["failures_in_row"] or "-"),
        )
    Console().print(table)


def schedule(heartbeat: dict[str, Any]) -> str:
    """Its schedule in words."""
    if heartbeat["cron"] is not None:
        return f"{heartbeat['cron']} {heartbeat['timezone']}"
    return f"every {show_duration(heartbeat['period_seconds'])}"


def show_heartbeat(heartbeat: dict[str, Any], ping_root: str) -> None:
    """Print a heartbeat with its ping URLs and newest runs. `ping_root` is the part of ping URLs before the key."""
    console = Console()
    state = heartbeat["state"]
    console.print(Text(heartbeat["name"], style="bold"), _coloured(state), f"since {heartbeat['since']}")
    for label, value in (
        ("schedule", schedule(heartbeat)),
        ("grace", show_duration(heartbeat["grace_seconds"])),
        ("longest run", show_duration(heartbeat["max_runtime_seconds"])),
        ("down after", f"{heartbeat['failures_before_down']} in a row, now {heartbeat['failures_in_row']}"),
        ("due", show_moment(heartbeat["due_at"])),
        ("environment", heartbeat["environment_id"]),
        ("keys", ", ".join(f"{key['id']} {key['state']}" for key in heartbeat["keys"])),
    ):
        console.print(f"{label:<12} {value}", highlight=False)
    for key in heartbeat["ping_keys"]:
        shown = key["state"] if key["key"] is None else f"{ping_root}{key['key']}"
        # Never wrapped: people copy it.
        label = f"ping key {key['id']}"
        console.print(f"{label:<12} {shown}", highlight=False, soft_wrap=True)
    if not heartbeat["runs"]:
        console.print("No runs yet.")
        return
    table = Table("Run", "Outcome", "First signal", box=None, pad_edge=False)
    table.add_column("Took", justify="right")
    table.add_column("Exit", justify="right")
    for run in heartbeat["runs"]:
        table.add_row(
            run["run_id"],
            _coloured(run["outcome"]),
            show_second(run["first_signal_at"]),
            show_duration(run["duration_seconds"]),
            "-" if run["exit_status"] is None else str(run["exit_status"]),
        )
    console.print(table)
    written = next((run for run in heartbeat["runs"] if run["output"] is not None), None)
    if written is not None:
        console.print(
            f"\nThe newest output, of run {written['run_id']} (--json prints the output of each run):",
            highlight=False,
        )
        console.print(Text(_printable(written["output"])), highlight=False, soft_wrap=True)


def _printable(text: str) -> str:
    """Replace control characters: output of a job must not steer the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def show_queues(queues: list[dict[str, Any]]) -> None:
    """One line each: its counts, and its workers by what they do."""
    if not queues:
        print(typed_commands("No queues yet. `pharos queue create NAME` makes one."))
        return
    table = Table("ID", "Name", "Observed", box=None, pad_edge=False)
    table.columns[2].no_wrap = True
    for column in ("Pending", "Delayed", "Reserved", "Failed", "Wait", "Busy", "Idle", "Lost"):
        table.add_column(column, justify="right", no_wrap=True)
    for queue in queues:
        statuses = [worker["status"] for worker in queue["workers"]]
        lost = statuses.count("lost")
        table.add_row(
            str(queue["id"]),
            Text(queue["name"]),
            _ago(queue["observed_at"]),
            *(_count(queue[name]) for name in ("pending", "delayed", "reserved", "failed")),
            show_duration(queue["oldest_wait_seconds"]),
            str(statuses.count("busy")),
            str(statuses.count("idle")),
            Text(str(lost), style=_COLOURS["lost"] if lost else ""),
        )
    Console().print(table)


def show_queue(queue: dict[str, Any]) -> None:
    """One queue, and each of its workers."""
    show_queues([queue])
    console = Console()
    keys = ", ".join(f"{key['id']} {key['state']}" for key in queue["keys"])
    console.print(f"keys         {keys}", highlight=False)
    if not queue["workers"]:
        console.print("No workers yet.")
        return
    table = Table("Worker", "Status", "Job", "Last heard", box=None, pad_edge=False)
    for worker in queue["workers"]:
        table.add_row(
            worker["worker_id"],
            _coloured(worker["status"]),
            worker["job_id"] or "-",
            _ago(worker["last_heard_at"]),
        )
    console.print(table)


def _coloured(state: str) -> Text:
    return Text(state, style=_COLOURS.get(state, ""))


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _ago(time: str | None) -> str:
    if time is None:
        return "-"
    seconds = (datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds()
    return f"{show_duration(max(0, int(seconds)))} ago"
