"""What the pages of heartbeats and queues share."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from operator_cli.durations import format_age
from operator_cli.messages import qualify_commands
from operator_cli.terminal_text import sanitize


def print_monitor(name: str, state: Text, facts: Mapping[str, str]) -> None:
    """Print the name with its state, and a line for each label and value."""
    # Never wrapped, because people copy ping URLs.
    console = Console(highlight=False, soft_wrap=True)
    console.print(Text.assemble((sanitize(name), "bold"), state))
    for label, value in facts.items():
        console.print(Text(f"{label:<12} {sanitize(qualify_commands(value))}"))


def describe_keys(keys: list[dict[str, Any]]) -> str:
    """Return the IDs of live keys, and how many others there are: `2, 5 (1 revoked)`."""
    live = ", ".join(str(key["id"]) for key in reversed(keys) if key["state"] == "live")
    others = Counter(key["state"] for key in keys if key["state"] != "live")
    more = ", ".join(f"{count} {state}" for state, count in others.items())
    return f"{live or 'none'} ({more})" if more else live or "none"


def format_optional_age(time: str | None) -> str | None:
    """Return the age of an ISO time: `2h 5m ago`."""
    return None if time is None else format_age(time)
