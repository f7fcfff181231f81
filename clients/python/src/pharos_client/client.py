"""The client: records events and sends them in the background."""

from __future__ import annotations

import atexit
import sys
import uuid
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from pharos_client.diagnostics import warn
from pharos_client.encoding import cut, describe, encode_event, int64
from pharos_client.exceptions import describe_exception, install_hooks
from pharos_client.sender import BatchSender
from pharos_client.settings import KEY_VARIABLE, URL_VARIABLE, Settings
from pharos_client.tracing import current_span

EVENT_TYPES = frozenset({"request", "query", "job", "exception", "log", "metric"})
SEVERITIES = frozenset({"debug", "info", "warning", "error", "critical"})
_TEXTS = (
    *("name", "title", "trace_id", "span_id", "parent_span_id", "route", "url", "service", "fingerprint"),
    "details",
)
_INTEGERS = ("status_code", "affected_users")
_LONGEST = {"details": 64 * 1024}


class Client:
    """Sends events of one environment. No method raises, or waits for the network, except `flush` and `close`.

    Without an address or a key, all methods do nothing.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._sender: BatchSender | None = None
        if settings.is_complete:
            self._sender = BatchSender(settings, self._make_notice)
            atexit.register(self.close)
        else:
            warn("settings", f"Nothing is sent: {URL_VARIABLE} or {KEY_VARIABLE} is not set.")
        self._shared: dict[str, Any] = {}
        if settings.environment:
            self._shared["deployment.environment.name"] = settings.environment
        if settings.release:
            self._shared["service.version"] = settings.release

    @property
    def is_enabled(self) -> bool:
        """True if events are sent: there is an address and a key, and the client is not closed."""
        return self._sender is not None and not self._sender.is_closed

    @property
    def dropped(self) -> int:
        """Number of events of this process that were not sent: the buffer was full, the platform refused them, or the
        time at the end was over."""
        return self._sender.dropped if self._sender is not None else 0

    def event(
        self,
        type: str,
        *,
        severity: str | None = None,
        timestamp: datetime | float | None = None,
        duration_ms: float | None = None,
        attributes: Mapping[str, Any] | None = None,
        payload: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> bool:
        """Record an event; return False if it is dropped.

        `type`: request, query, job, exception, log or metric. `timestamp`: a time (without a zone: local time) or
        seconds since 1970; the default is now. `fields`: the other fields of `POST /v1/ingest`; a wrong name or type is
        ignored with a warning.
        """
        if self._sender is None:
            return False
        try:
            event = self._build(type, severity, timestamp, duration_ms, attributes, payload, fields)
            encoded = None if event is None else encode_event(event)
        except Exception as error:  # Telemetry must not break the application.
            warn("event", f"An event could not be recorded: {error.__class__.__name__}: {describe(error)}")
            return False
        return encoded is not None and self._sender.add(encoded)

    def log(self, message: str, severity: str = "info", **attributes: Any) -> bool:
        """Record a log line with attributes; return False if it is dropped."""
        return self.event("log", severity=severity, title=message, attributes=attributes)

    def capture_exception(
        self,
        error: BaseException | None = None,
        *,
        severity: str = "error",
        fingerprint: str | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> bool:
        """Record an exception with its stack: the given one, or the one that is being handled.

        `fingerprint` groups exceptions that belong to one issue; without it, Pharos groups by type, message and frame.
        """
        error = error if error is not None else sys.exc_info()[1]
        if error is None:
            return False
        described = describe_exception(error)
        return self.event(
            "exception", severity=severity, fingerprint=fingerprint, attributes=attributes, **described
        )

    def flush(self, timeout: float = 5.0) -> bool:
        """Wait until all recorded events are sent or dropped, at most this many seconds. Return True if they are."""
        return self._sender is None or self._sender.flush(timeout)

    def close(self, timeout: float | None = None) -> bool:
        """Send the remaining events, for at most this many seconds (5 by default). Later events are dropped."""
        return self._sender is None or self._sender.close(timeout)

    def install_exception_hooks(self) -> None:
        """Report uncaught exceptions of the program and of its threads."""
        install_hooks(self)

    def _build(
        self,
        kind: str,
        severity: str | None,
        timestamp: datetime | float | None,
        duration_ms: float | None,
        attributes: Mapping[str, Any] | None,
        payload: Mapping[str, Any] | None,
        fields: Mapping[str, Any],
    ) -> dict[str, Any] | None:
        if kind not in EVENT_TYPES:
            warn("type", f"An event has the type {kind!r}; known are {', '.join(sorted(EVENT_TYPES))}.")
            return None
        event: dict[str, Any] = {"type": kind, "id": str(fields.get("id") or uuid.uuid4())}
        event["timestamp"] = _format_time(timestamp)
        if severity is not None:
            event["severity"] = severity if severity in SEVERITIES else "info"
        for name, value in fields.items():
            if value is None or name == "id":
                continue
            if name in _TEXTS:
                event[name] = cut(describe(value), _LONGEST.get(name, 16 * 1024))
            elif name in _INTEGERS and int64(value) is not None:
                event[name] = int64(value)
            else:
                warn(
                    f"field {name}", f"The field {name!r} of an event is unknown, or its value is no integer."
                )
        if duration_ms is not None:
            event["duration_ms"] = float(duration_ms)
        if self.settings.service:
            event.setdefault("service", self.settings.service)
        span = current_span() if "trace_id" not in event else None
        if span is not None:
            event["trace_id"] = span.trace_id
            event.setdefault("span_id", span.span_id)
        merged = {**self._shared, **(attributes or {})}
        if merged:
            event["attributes"] = merged
        if payload:
            event["payload"] = dict(payload)
        return event

    def _make_notice(self, count: int) -> bytes | None:
        event = self._build(
            *("log", "warning", None, None, {"pharos_client.dropped": count}, None),
            {"title": f"pharos-client dropped {count} events of this process"},
        )
        return None if event is None else encode_event(event)


def _format_time(timestamp: datetime | float | None) -> str:
    if timestamp is None:
        time = datetime.now(timezone.utc)
    elif isinstance(timestamp, datetime):
        time = timestamp.astimezone(timezone.utc)
    else:
        time = datetime.fromtimestamp(timestamp, timezone.utc)
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z")
