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
    summary = (
        " ".join(part for part in (event["name"], event["title"]) if part) or event["route"] or event["url"]
    )
    parts = [event["service"], summary]
    if event["status_code"]:
        parts.append(str(event["status_code"]))
    if event["duration_ms"] is not None:
        parts.append(f"{event['duration_ms']:.1f} ms")
    return line.append(sanitize("  ".join(part for part in parts if part), max_length=2000))
