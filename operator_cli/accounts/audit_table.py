"""Print the audit log as a table."""

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.text import Text

from operator_cli.tables import Column, print_table, shorten_ids
from operator_cli.terminal_text import make_cell

_ID: Final = re.compile("[a-z]{3}_[0-9a-z]{26}")


def show_audit_entries(arguments: argparse.Namespace, entries: Sequence[dict[str, Any]]) -> None:
    """Print audit entries: time (UTC), author, action, subject and details."""
    print_table(
        arguments,
        [
            Column("UTC, by", wraps=False),
            Column("Action", wraps=False),
            Column("Subject, details"),
        ],
        [
            (
                Text("\n").join([Text(f"{entry['at'][:10]} {entry['at'][11:19]}"), *_list_authors(entry)]),
                entry["action"],
                _make_subject(entry),
            )
            for entry in entries
        ],
        empty="The audit log has no such entry.",
    )


def _make_subject(entry: Mapping[str, Any]) -> Text:
    lines = [make_cell(entry["subject"])]
    if entry["details"]:
        lines.append(make_cell(_format_details(entry["details"]), style="dim"))
    return Text("\n").join(lines)


def _format_details(details: Mapping[str, Any]) -> str:
    """Return `from=member, to=admin`, with nested details in brackets."""
    return ", ".join(
        f"{name}={_format_detail(value)}" for name, value in details.items() if value is not None
    )


def _format_detail(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"({_format_details(value)})"
    if isinstance(value, list):
        return " ".join(map(_format_detail, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    (text,) = shorten_ids([value]) if isinstance(value, str) and _ID.fullmatch(value) else [str(value)]
    return text


def _list_authors(entry: Mapping[str, Any]) -> list[Text]:
    """Return the person and the token, and the address or operator, of an entry."""
    lines = [] if entry["person"] is None else [entry["person"]["email"]]
    source = entry["source"]
    lines.append(source if entry["token_id"] is None else f"{source}, token {entry['token_id']}")
    return [make_cell(line, style="dim") for line in lines]
