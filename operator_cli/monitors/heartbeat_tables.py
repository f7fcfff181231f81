"""Print heartbeats and their runs as tables."""

import argparse
from typing import Any

from rich.text import Text

from operator_cli.durations import format_age, format_duration, format_minute, format_second
from operator_cli.monitors.find_monitor import format_environment, format_listed_names
from operator_cli.monitors.monitor_facts import describe_keys, format_optional_age, print_monitor
from operator_cli.tables import Column, print_table
from operator_cli.terminal_text import replace_control_characters

_COLOURS = {
    "up": "green",
    "running": "cyan",
    "late": "yellow",
    "down": "bold red",
    "unknown": "magenta",
    "succeeded": "green",
    "open": "cyan",
    "failed": "bold red",
    "timed_out": "bold red",
}


def show_heartbeats(arguments: argparse.Namespace, heartbeats: list[dict[str, Any]]) -> None:
    """Print one line for each heartbeat: schedule, state and last success."""
    names = format_listed_names(heartbeats, is_wide=getattr(arguments, "wide", False))
    print_table(
        arguments,
        [
            Column("ID", is_number=True),
            Column("Name"),
            Column("State", wraps=False),
            Column("Since", wraps=False),
            Column("Schedule"),
            Column("Success", wraps=False),
            Column("Due", wraps=False, is_optional=True),
            Column("Failed", is_number=True, is_optional=True),
            Column("Environment", is_optional=True),
        ],
        [
            (
                heartbeat["id"],
                name,
                _colour_state(heartbeat["state"]),
                format_age(heartbeat["since"]),
                format_schedule(heartbeat),
                format_optional_age(heartbeat["last_success_at"]),
                format_minute(heartbeat["due_at"]),
                heartbeat["failures_in_row"] or None,
                environment,
            )
            for heartbeat, (name, environment) in zip(heartbeats, names, strict=True)
        ],
        empty="No heartbeats yet. `pharos heartbeat create NAME --every 1h` makes one.",
    )


def format_schedule(heartbeat: dict[str, Any]) -> str:
    """Return the schedule in words."""
    if heartbeat["cron"] is not None:
        return f"{heartbeat['cron']} {heartbeat['timezone']}"
    return f"every {format_duration(heartbeat['period_seconds'])}"


def show_heartbeat(
    arguments: argparse.Namespace, heartbeat: dict[str, Any], host: str, with_output: dict[str, Any] | None
) -> None:
    """Print a heartbeat with its `keys`, `ping_keys` and newest `runs`.

    `host` precedes the paths of ping URLs; `with_output` is the newest run with an output.
    """
    state = heartbeat["state"]
    print_monitor(
        heartbeat["name"],
        Text.assemble("  ", _colour_state(state), f" since {_format_utc(heartbeat['since'])}"),
        {
            "ID": str(heartbeat["id"]),
            "environment": format_environment(heartbeat),
            "schedule": format_schedule(heartbeat),
            "grace": format_duration(heartbeat["grace_seconds"]),
            "longest run": format_duration(heartbeat["max_runtime_seconds"]),
            "down after": f"{heartbeat['failures_before_down']} in a row, now {heartbeat['failures_in_row']}",
            "due": _format_utc(heartbeat["due_at"]),
            "keys": describe_keys(heartbeat["keys"]),
            **_describe_ping_keys(heartbeat, host),
        },
    )
    print()
    show_runs(arguments, heartbeat["name"], heartbeat["runs"])
    if with_output is not None:
        print(
            f"\nThe newest output, of run {with_output['run_id']}:\n"
            f"{replace_control_characters(with_output['output'] or '')}"
        )


def _format_utc(time: str | None) -> str:
    return "-" if time is None else f"{format_minute(time)} UTC"


def _describe_ping_keys(heartbeat: dict[str, Any], host: str) -> dict[str, str]:
    keys = heartbeat["ping_keys"]
    if keys is None:
        return {"ping keys": "shown to those who may change the heartbeat"}
    if not keys:
        return {"ping keys": f"none yet; `pharos heartbeat new-ping-key {heartbeat['id']}` makes a ping URL"}
    return {
        f"ping key {key['id']}": key["state"] if key["urls"] is None else f"{host}{key['urls']['success']}"
        for key in keys
    }


def show_runs(arguments: argparse.Namespace, name: str, runs: list[dict[str, Any]]) -> None:
    """Print one line for each run, the newest first."""
    print_table(
        arguments,
        [
            Column("Run", wraps=False),
            Column("Outcome", wraps=False),
            Column("First signal", wraps=False),
            Column("Took", is_number=True),
            Column("Exit", is_number=True),
            Column("Output", wraps=False, is_optional=True),
        ],
        [
            (
                run["run_id"],
                _colour_state(run["outcome"]),
                format_second(run["first_signal_at"]),
                format_duration(run["duration_seconds"]),
                run["exit_status"],
                "yes" if run["has_output"] else None,
            )
            for run in runs
        ],
        empty=f"{name} has no runs in the last 7 days.",
    )


def _colour_state(state: str) -> Text:
    return Text(state.replace("_", " "), style=_COLOURS.get(state, ""))
