"""Print channels as tables."""

import argparse
from typing import Any

from rich.text import Text

from operator_cli.durations import format_age
from operator_cli.notifications.quiet_hours import describe_quiet_hours
from operator_cli.tables import Column, print_table
from operator_cli.terminal_text import make_cell, print_facts


def show_channels(arguments: argparse.Namespace, channels: list[dict[str, Any]]) -> None:
    """Print one line for each channel."""
    print_table(
        arguments,
        [
            Column("Name"),
            Column("Type", wraps=False),
            Column("State"),
            Column("Sends to", is_optional=True),
            Column("ID", is_id=True, is_optional=True),
        ],
        [
            (
                channel["name"],
                channel["type"],
                _format_state(channel),
                _describe_destination(channel),
                channel["id"],
            )
            for channel in channels
        ],
        empty="No channels yet. `pharos channels create TYPE NAME` makes one: slack, email, webhook …",
    )


def show_channel(channel: dict[str, Any]) -> None:
    """Print one channel: its settings, and the names of its secrets."""
    settings = {name.replace("_", " "): value for name, value in (channel.get("settings") or {}).items()}
    print_facts(
        channel["name"],
        {
            "ID": str(channel["id"]),
            "type": channel["type"],
            "state": _format_state(channel).plain,
            **settings,
            "secrets": ", ".join(channel.get("has_secrets") or ()) or "none",
            "quiet hours": describe_quiet_hours(channel.get("quiet_hours")),
        },
    )


def _describe_destination(channel: dict[str, Any]) -> str | None:
    settings = channel.get("settings") or {}
    return settings.get("address") or settings.get("url") or settings.get("chat_id") or settings.get("server")


def _format_state(channel: dict[str, Any]) -> Text:
    if channel["enabled"] and channel["failing_since"] is None:
        return Text("on", style="green")
    state = Text("off", style="dim")
    if channel["enabled"]:
        state = Text(f"failing, {format_age(channel['failing_since'])}", style="bold red")
    if channel["last_error"]:
        state.append(": ").append_text(make_cell(channel["last_error"], max_length=200))
    return state
