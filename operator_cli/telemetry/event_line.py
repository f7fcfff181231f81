"""Formats a telemetry event as a line of text."""

from datetime import datetime
from typing import Any, Final

from rich.text import Text

from operator_cli.terminal_text import sanitize

_COLOURS: Final = {"debug": "dim", "warning": "yellow", "error": "red", "critical": "bold red"}


def format_event(event: dict[str, Any]) -> Text:
    """Return one line with time, type, severity, service, title, status and duration."""
    severity = event["severity"] or ""
    moment = datetime.fromisoformat(event["timestamp"])
    clock = moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03d}"
    line = Text(f"{clock}  {event['type']:<9}  {severity:<8}  ", style=_COLOURS.get(severity, ""))
    summary = join_title(event["name"], event["title"], " ") or event["route"] or event["url"]
    parts = [event["service"], summary]
    if event["status_code"]:
        parts.append(str(event["status_code"]))
    if event["duration_ms"] is not None:
        parts.append(f"{event['duration_ms']:.1f} ms")
    return line.append(sanitize("  ".join(part for part in parts if part), max_length=2000))


def join_title(name: str | None, title: str | None, separator: str) -> str:
    """Return name and title; the title alone if it begins with the name, as the messages of some SDKs do."""
    if name and title and (title == name or title.startswith(f"{name}:")):
        return title
    return separator.join(part for part in (name, title) if part)
