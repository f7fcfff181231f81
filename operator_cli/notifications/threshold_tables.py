"""Print thresholds."""

import argparse
from typing import Any

from rich.text import Text

from notifications.render.words import write_duration, write_value
from operator_cli.durations import format_age
from operator_cli.notifications.find import format_place
from operator_cli.tables import Column, print_table
from operator_cli.terminal_text import make_cell, print_facts

_UNITS = {"queue.wait": "s", "queue.size": "jobs", "service.error_rate": "%", "service.latency": "ms"}
_COLOURS = {"firing": "bold red", "pending": "yellow", "ok": "green", "no data": "yellow"}


def show_thresholds(arguments: argparse.Namespace, thresholds: list[dict[str, Any]]) -> None:
    """Print one line for each threshold."""
    print_table(
        arguments,
        [
            Column("ID", is_number=True),
            Column("Name, where"),
            Column("State", wraps=False),
            Column("Value"),
            Column("Opens"),
            Column("Figure"),
            Column("Evaluated", wraps=False, is_optional=True),
        ],
        [
            (
                threshold["id"],
                make_cell(threshold["name"])
                .append("\n")
                .append_text(make_cell(format_place(threshold), "dim")),
                _format_state(threshold),
                _format_value(threshold, threshold["value"]),
                f"{threshold['direction']} {_format_value(threshold, threshold['threshold'])}",
                _format_figure(threshold),
                _format_age(threshold),
            )
            for threshold in thresholds
        ],
        empty="No thresholds yet. `pharos thresholds create NAME service.latency SERVICE --above 800` makes one.",
    )


def show_threshold(threshold: dict[str, Any]) -> None:
    """Print one threshold."""
    age = _format_age(threshold)
    value = _format_value(threshold, threshold["value"]) or "no data"
    print_facts(
        threshold["name"],
        {
            "ID": str(threshold["id"]),
            "where": format_place(threshold),
            "state": _format_state(threshold).plain,
            "value": "not evaluated yet" if age is None else f"{value}, evaluated {age}",
            "figure": _format_figure(threshold),
            "opens": f"{threshold['direction']} {_format_value(threshold, threshold['threshold'])}, "
            f"{_format_pending(threshold)}",
            "ends": f"at {_format_value(threshold, threshold['recovery'])}",
            "window": write_duration(threshold["window_seconds"]),
            "severity": threshold["severity"],
        },
    )


def _format_state(threshold: dict[str, Any]) -> Text:
    if not threshold["enabled"]:
        return Text("off", style="dim")
    phase = threshold["phase"] or "new"
    if phase == "ok" and threshold["value"] is None:
        phase = "no data"
    return Text(phase, style=_COLOURS.get(phase, ""))


def _format_pending(threshold: dict[str, Any]) -> str:
    seconds = threshold["pending_seconds"]
    return f"after {write_duration(seconds)}" if seconds else "at once"


def _format_value(threshold: dict[str, Any], value: float | None) -> str | None:
    return None if value is None else write_value(value, _UNITS.get(threshold["kind"], ""))


def _format_figure(threshold: dict[str, Any]) -> str:
    figure = f"{threshold['kind']} {threshold['target']}"
    if threshold["kind"] != "metric.value":
        return figure
    service = "" if threshold["service"] is None else f" of {threshold['service']}"
    return f"{figure} ({threshold['aggregation']}){service}"


def _format_age(threshold: dict[str, Any]) -> str | None:
    return None if threshold["evaluated_at"] is None else format_age(threshold["evaluated_at"])
