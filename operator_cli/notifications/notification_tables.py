"""Print notifications and the attempts to deliver them."""

import argparse
from collections.abc import Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from notifications.message import Message
from notifications.render.text import render_text
from operator_cli.durations import format_age, format_second, format_utc_minute
from operator_cli.notifications.find import format_place
from operator_cli.tables import Column, print_table
from operator_cli.terminal_text import make_cell, print_facts, sanitize

_COLOURS = {"sent": "green", "pending": "cyan", "failed": "bold red", "canceled": "dim", "retry": "yellow"}
_REASONS = {"first": "first message", "change": "change", "reminder": "reminder"}


def show_notifications(
    arguments: argparse.Namespace, notifications: Sequence[dict[str, Any]], empty: str
) -> None:
    """Print one line for each notification."""
    print_table(
        arguments,
        [
            Column("ID", is_id=True, made_together=True),
            Column("When", wraps=False),
            Column("What"),
            Column("To"),
            Column("Status", wraps=False),
            Column("Attempts", is_number=True, is_optional=True),
            Column("Where", is_optional=True),
        ],
        [
            (
                notification["id"],
                format_age(notification["created_at"]),
                _format_title(notification),
                notification["recipient"],
                Text(notification["status"], style=_COLOURS.get(notification["status"], "")),
                notification["attempts"],
                None if notification["project"] is None else format_place(notification),
            )
            for notification in notifications
        ],
        empty=empty,
    )


def _format_title(notification: dict[str, Any]) -> Text:
    """Return the title, with the last error on a line of its own."""
    title = make_cell(notification["title"], max_length=120)
    if notification["last_error"] is not None:
        title.append("\n").append_text(make_cell(notification["last_error"], "dim", max_length=100))
    return title


def show_notification(notification: dict[str, Any]) -> None:
    """Print one notification: its incidents, and every attempt to deliver it."""
    facts = {
        "ID": notification["id"],
        "to": notification["recipient"],
        "status": notification["status"],
        "where": format_place(notification),
        "reason": "test"
        if notification["is_test"]
        else _REASONS.get(notification["reason"], notification["reason"]),
        "created": format_utc_minute(notification["created_at"]),
    }
    if notification["sent_at"] is not None:
        facts["sent"] = format_utc_minute(notification["sent_at"])
    if notification["next_attempt_at"] is not None:
        facts["next attempt"] = format_utc_minute(notification["next_attempt_at"])
    if notification["last_error"] is not None:
        facts["error"] = notification["last_error"]
    print_facts(notification["title"], facts)
    _print_content(notification["content"])
    print()
    print_attempts(notification["deliveries"])


def _print_content(content: dict[str, Any]) -> None:
    """Print the text form of the message, without its links, which are signed for its recipient."""
    try:
        message = msgspec.convert(content, Message)
    except msgspec.ValidationError:
        # The message was written by another version of Pharos.
        return
    print()
    for line in render_text(message).splitlines():
        print(f"  {sanitize(line)}".rstrip())


def print_attempts(attempts: Sequence[dict[str, Any]]) -> None:
    """Print the attempts, the first one first, each on a line of its own."""
    if not attempts:
        print("No attempt to deliver it yet.")
    # Never wrap errors of servers, because people search for them.
    console = Console(highlight=False, soft_wrap=True)
    for attempt in reversed(attempts):
        line = Text(f"{format_second(attempt['at'])} UTC  ")
        line.append(f"{attempt['outcome']:<6}", style=_COLOURS.get(attempt["outcome"], ""))
        line.append(f"  {attempt['took_ms']} ms")
        if attempt["requested"]:
            line.append("  sent again on request")
        if attempt["error"] is not None:
            line.append(f"  {sanitize(attempt['error'])}")
        console.print(line)
