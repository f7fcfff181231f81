"""Print queues and their workers as tables."""

import argparse
from typing import Any

from rich.text import Text

from operator_cli.durations import format_age, format_duration
from operator_cli.monitors.find_monitor import format_environment, format_listed_names
from operator_cli.monitors.monitor_facts import describe_keys, format_optional_age, print_monitor
from operator_cli.tables import Column, print_table

_COUNTS = ("pending", "delayed", "reserved", "failed")
_COLOURS = {"busy": "cyan", "lost": "bold red"}


def show_queues(arguments: argparse.Namespace, queues: list[dict[str, Any]]) -> None:
    """Print one line for each queue: its counts, and its workers by status."""
    names = format_listed_names(queues, is_wide=getattr(arguments, "wide", False))
    print_table(
        arguments,
        [
            Column("ID", is_number=True),
            Column("Name"),
            Column("Observed", wraps=False),
            *(
                Column(name.title(), is_number=True, is_optional=name in ("delayed", "reserved"))
                for name in _COUNTS
            ),
            Column("Wait", is_number=True),
            *(Column(name, is_number=True, is_optional=name != "Lost") for name in ("Busy", "Idle", "Lost")),
            Column("Environment", is_optional=True),
        ],
        [
            (
                queue["id"],
                name,
                format_optional_age(queue["observed_at"]),
                *(None if queue[count] is None else f"{queue[count]:,}" for count in _COUNTS),
                format_duration(queue["oldest_wait_seconds"]),
                queue["workers"]["busy"],
                queue["workers"]["idle"],
                _colour("lost", str(queue["workers"]["lost"]), queue["workers"]["lost"] > 0),
                environment,
            )
            for queue, (name, environment) in zip(queues, names, strict=True)
        ],
        empty="No queues yet. `pharos queue create NAME` makes one.",
    )


def show_queue(arguments: argparse.Namespace, queue: dict[str, Any]) -> None:
    """Print one queue with its `keys`, and each of its workers (`worker_list`)."""
    print_monitor(
        queue["name"],
        Text(),
        {
            "ID": str(queue["id"]),
            "environment": format_environment(queue),
            "observed": format_optional_age(queue["observed_at"]) or "never",
            "jobs": _describe_counts(queue),
            "longest wait": format_duration(queue["oldest_wait_seconds"]),
            "keys": describe_keys(queue["keys"]),
        },
    )
    print()
    print_table(
        arguments,
        [
            Column("Worker"),
            Column("Status", wraps=False),
            Column("Reported", wraps=False),
            Column("Job"),
        ],
        [
            (
                worker["worker_id"],
                _colour(worker["status"], worker["status"]),
                format_age(worker["last_report_at"]),
                worker["job_id"],
            )
            for worker in queue["worker_list"]
        ],
        empty="No workers yet.",
    )


def _describe_counts(queue: dict[str, Any]) -> str:
    counts = [f"{queue[name]:,} {name}" for name in _COUNTS if queue[name] is not None]
    return ", ".join(counts) or "not known"


def _colour(status: str, text: str, is_coloured: bool = True) -> Text:
    return Text(text, style=_COLOURS.get(status, "") if is_coloured else "")
