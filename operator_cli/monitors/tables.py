"""Print heartbeats and queues as tables."""

from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from operator_cli.durations import format_duration, format_minute, format_second
from operator_cli.messages import qualify_commands

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
    """Print one line for each heartbeat: schedule, state and last success."""
    if not heartbeats:
        print(qualify_commands("No heartbeats yet. `pharos heartbeat create NAME --period 1h` makes one."))
        return
    table = Table("ID", "Name", "State", "Since", "Schedule", "Success", "Due", box=None, pad_edge=False)
    table.add_column("Failed", justify="right")
    for column in (2, 3, 5, 6):
        table.columns[column].no_wrap = True
    for heartbeat in heartbeats:
        table.add_row(
            str(heartbeat["id"]),
            Text(heartbeat["name"]),
            _colour_state(heartbeat["state"]),
            _format_age(heartbeat["since"]),
            format_schedule(heartbeat),
            _format_age(heartbeat["last_success_at"]),
            format_minute(heartbeat["due_at"]),
            str(heartbeat["failures_in_row"] or "-"),
        )
    Console().print(table)


def format_schedule(heartbeat: dict[str, Any]) -> str:
    """Return the schedule in words."""
    if heartbeat["cron"] is not None:
        return f"{heartbeat['cron']} {heartbeat['timezone']}"
    return f"every {format_duration(heartbeat['period_seconds'])}"


def show_heartbeat(heartbeat: dict[str, Any], ping_url_prefix: str) -> None:
    """Print a heartbeat with its ping URLs and newest runs. `ping_url_prefix` precedes the key in ping URLs."""
    console = Console()
    state = heartbeat["state"]
    console.print(Text(heartbeat["name"], style="bold"), _colour_state(state), f"since {heartbeat['since']}")
    for label, value in (
        ("schedule", format_schedule(heartbeat)),
        ("grace", format_duration(heartbeat["grace_seconds"])),
        ("longest run", format_duration(heartbeat["max_runtime_seconds"])),
        ("down after", f"{heartbeat['failures_before_down']} in a row, now {heartbeat['failures_in_row']}"),
        ("due", format_minute(heartbeat["due_at"])),
        ("environment", heartbeat["environment_id"]),
        ("keys", ", ".join(f"{key['id']} {key['state']}" for key in heartbeat["keys"])),
    ):
        console.print(f"{label:<12} {value}", highlight=False)
    for key in heartbeat["ping_keys"]:
        value = key["state"] if key["key"] is None else f"{ping_url_prefix}{key['key']}"
        # Never wrapped, because people copy it.
        label = f"ping key {key['id']}"
        console.print(f"{label:<12} {value}", highlight=False, soft_wrap=True)
    if not heartbeat["runs"]:
        console.print("No runs yet.")
        return
    table = Table("Run", "Outcome", "First signal", box=None, pad_edge=False)
    table.add_column("Took", justify="right")
    table.add_column("Exit", justify="right")
    for run in heartbeat["runs"]:
        table.add_row(
            run["run_id"],
            _colour_state(run["outcome"]),
            format_second(run["first_signal_at"]),
            format_duration(run["duration_seconds"]),
            "-" if run["exit_status"] is None else str(run["exit_status"]),
        )
    console.print(table)
    newest = next((run for run in heartbeat["runs"] if run["output"] is not None), None)
    if newest is not None:
        console.print(
            f"\nThe newest output, of run {newest['run_id']} (--json prints the output of each run):",
            highlight=False,
        )
        console.print(Text(_replace_control_characters(newest["output"])), highlight=False, soft_wrap=True)


def _replace_control_characters(text: str) -> str:
    """Replace control characters, so that the output of a job cannot control the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def show_queues(queues: list[dict[str, Any]]) -> None:
    """Print one line for each queue: its counts, and its workers by status."""
    if not queues:
        print(qualify_commands("No queues yet. `pharos queue create NAME` makes one."))
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
            _format_age(queue["observed_at"]),
            *(_format_count(queue[name]) for name in ("pending", "delayed", "reserved", "failed")),
            format_duration(queue["oldest_wait_seconds"]),
            str(statuses.count("busy")),
            str(statuses.count("idle")),
            Text(str(lost), style=_COLOURS["lost"] if lost else ""),
        )
    Console().print(table)


def show_queue(queue: dict[str, Any]) -> None:
    """Print one queue and each of its workers."""
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
            _colour_state(worker["status"]),
            worker["job_id"] or "-",
            _format_age(worker["last_heard_at"]),
        )
    console.print(table)


def _colour_state(state: str) -> Text:
    return Text(state, style=_COLOURS.get(state, ""))


def _format_count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _format_age(time: str | None) -> str:
    if time is None:
        return "-"
    seconds = (datetime.now(UTC) - datetime.fromisoformat(time)).total_seconds()
    return f"{format_duration(max(0, int(seconds)))} ago"
