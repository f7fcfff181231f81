"""Prints the audit log as a table."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from operator_cli.plain_text import cell


def show_entries(entries: list[dict[str, Any]]) -> None:
    """Each with when (UTC) and by whom, what was done, to what and with which details."""
    if not entries:
        print("The audit log has no such entry.")
        return
    table = Table("UTC, by", "Action", "Subject", box=None, pad_edge=False)
    table.columns[1].no_wrap = True
    for entry in entries:
        when = f"{entry['at'][:10]} {entry['at'][11:19]}"
        subject = [cell(entry["subject"])]
        if entry["details"]:
            subject.append(cell(_told(entry["details"]), style="dim"))
        table.add_row(
            Text("\n").join([Text(when), *_by(entry)]), cell(entry["action"]), Text("\n").join(subject)
        )
    Console().print(table)


def _told(details: Mapping[str, Any]) -> str:
    """`from=member, to=admin`; what is nested in brackets."""
    return ", ".join(f"{name}={_value(value)}" for name, value in details.items() if value is not None)


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"({_told(value)})"
    if isinstance(value, list):
        return " ".join(map(str, value))
    return str(value)


def _by(entry: dict[str, Any]) -> list[Text]:
    """The person and the token, and the address or the operator."""
    person = [] if entry["person"] is None else [entry["person"]]
    token = [] if entry["token_id"] is None else [f"token {entry['token_id']}"]
    return [cell(line, style="dim") for line in (*person, *token, entry["source"])]
