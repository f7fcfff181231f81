"""The trace that the current code belongs to, for logs and exceptions."""

from __future__ import annotations

import re
import secrets
import sys
from contextvars import ContextVar, Token
from dataclasses import dataclass

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?")


@dataclass(frozen=True)
class Span:
    """IDs in hexadecimal; `parent_id` is empty at the root of a trace."""

    trace_id: str
    span_id: str
    parent_id: str = ""


_current: ContextVar[Span | None] = ContextVar("pharos_client_span", default=None)


def start_span(traceparent: str | None = None) -> Span:
    """Return a new span: a child of the W3C `traceparent` header if that is valid, else a root."""
    found = _TRACEPARENT.fullmatch((traceparent or "").strip().lower())
    if found and int(found.group(1), 16) and int(found.group(2), 16):
        return Span(found.group(1), secrets.token_hex(8), found.group(2))
    return Span(secrets.token_hex(16), secrets.token_hex(8))


def enter_span(span: Span) -> Token[Span | None]:
    """Make this the current span; `leave_span` takes the result."""
    return _current.set(span)


def leave_span(token: Token[Span | None]) -> None:
    """Restore the span from before `enter_span`."""
    try:
        _current.reset(token)
    except ValueError:
        # The server closes a response in another context than the one that started it.
        _current.set(None)


def current_span() -> Span | None:
    """Return the span of OpenTelemetry if the application uses it, else the one of the request."""
    api = sys.modules.get("opentelemetry.trace")
    if api is not None:
        context = api.get_current_span().get_span_context()
        if context.is_valid:
            return Span(f"{context.trace_id:032x}", f"{context.span_id:016x}")
    return _current.get()
