"""Print silences."""

import argparse
from typing import Any

from rich.text import Text

from operator_cli.durations import format_minute
from operator_cli.notifications.find import format_place
from operator_cli.tables import Column, print_table


def show_silences(arguments: argparse.Namespace, silences: list[dict[str, Any]]) -> None:
    """Print one line for each silence."""
    print_table(
        arguments,
        [
            Column("ID", is_number=True),
            Column("State", wraps=False),
            Column("Until (UTC)", wraps=False),
            Column("Scope"),
            Column("Reason"),
            Column("From (UTC)", wraps=False, is_optional=True),
            Column("By", is_optional=True),
        ],
        [
            (
                silence["id"],
                Text(silence["state"], style="cyan" if silence["state"] == "active" else ""),
                format_minute(silence["ends_at"]),
                _format_scope(silence),
                silence["reason"] or None,
                format_minute(silence["starts_at"]),
                "a link" if silence["person"] is None else silence["person"]["email"],
            )
            for silence in silences
        ],
        empty="No silences. `pharos silences create --environment production --for 2h` makes one.",
    )


def _format_scope(silence: dict[str, Any]) -> str:
    if silence["incident"] is not None:
        return str(silence.get("incident_title") or silence["incident"])
    place = "all" if silence["project"] is None else format_place(silence)
    return place if silence["kinds"] is None else f"{place}: {', '.join(silence['kinds'])}"
