"""A handler that sends records of the module `logging` to Pharos."""

from __future__ import annotations

import logging
from typing import Any

from pharos_client.client import Client
from pharos_client.current import get_client
from pharos_client.diagnostics import LOGGER_NAME
from pharos_client.encoding import describe
from pharos_client.exceptions import describe_exception

# Members of each record. All others come from `extra` or from filters.
_STANDARD = frozenset(
    (*vars(logging.LogRecord("", 0, "", 0, "", (), None)), "message", "asctime", "taskName", "color_message")
)


class PharosHandler(logging.Handler):
    """Records each log record as an event of the type `log`, with the members of `extra` as attributes.

    A record of the level ERROR or above with an exception is also recorded as an exception, so that it belongs to an
    issue. Records of this library are ignored. `client`: the one of `pharos_client.init` by default.
    """

    def __init__(self, level: int = logging.NOTSET, client: Client | None = None) -> None:
        super().__init__(level)
        self._client = client

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == LOGGER_NAME or record.name.startswith(LOGGER_NAME + "."):
            return
        try:
            self._record(record, self._client or get_client())
        except Exception:
            self.handleError(record)

    def _record(self, record: logging.LogRecord, client: Client) -> None:
        if not client.is_enabled:
            return
        attributes: dict[str, Any] = {
            "logger": record.name,
            "code.file.path": record.pathname,
            "code.line.number": record.lineno,
            "code.function.name": record.funcName,
            "thread.name": record.threadName,
        }
        attributes.update((name, value) for name, value in vars(record).items() if name not in _STANDARD)
        error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
        described = describe_exception(error) if error is not None else {}
        if error is not None:
            attributes["exception.type"] = described["name"]
            attributes["exception.message"] = described["title"]
        severity = find_severity(record.levelno)
        client.event(
            "log",
            severity=severity,
            name=record.name,
            title=_format_message(record),
            details=described.get("details") or record.stack_info,
            timestamp=record.created,
            attributes=attributes,
        )
        if error is not None and record.levelno >= logging.ERROR:
            client.event(
                "exception", severity=severity, timestamp=record.created, attributes=attributes, **described
            )


def find_severity(level: int) -> str:
    """Return the severity of a level of `logging`."""
    if level >= logging.CRITICAL:
        return "critical"
    if level >= logging.ERROR:
        return "error"
    if level >= logging.WARNING:
        return "warning"
    return "info" if level >= logging.INFO else "debug"


def _format_message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # The arguments do not fit the text, so record the text without them.
        return f"{describe(record.msg)} {describe(record.args)}"
