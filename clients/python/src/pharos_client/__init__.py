"""Client of Pharos: events, logs, exceptions, heartbeats, queues and OpenTelemetry.

    import pharos_client

    pharos_client.init()                         # PHAROS_URL and PHAROS_INGEST_KEY
    pharos_client.event("job", name="import", duration_ms=120)

Nothing here raises into the application or waits for the network, except `flush` and `close`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pharos_client.client import Client
from pharos_client.current import get_client, init
from pharos_client.heartbeats import Heartbeat, heartbeat
from pharos_client.logs import PharosHandler
from pharos_client.settings import Settings, read_settings

__all__ = [
    "Client",
    "Heartbeat",
    "PharosHandler",
    "Settings",
    "capture_exception",
    "event",
    "flush",
    "get_client",
    "heartbeat",
    "init",
    "log",
    "read_settings",
]
__version__ = "0.1.0"


def event(type: str, **fields: Any) -> bool:
    """Record an event with the client of this process; see `Client.event`."""
    return get_client().event(type, **fields)


def log(message: str, severity: str = "info", **attributes: Any) -> bool:
    """Record a log line with the client of this process; see `Client.log`."""
    return get_client().log(message, severity, **attributes)


def capture_exception(
    error: BaseException | None = None, *, attributes: Mapping[str, Any] | None = None
) -> bool:
    """Record an exception with the client of this process; see `Client.capture_exception`."""
    return get_client().capture_exception(error, attributes=attributes)


def flush(timeout: float = 5.0) -> bool:
    """Wait until all events of this process are sent, at most this many seconds; see `Client.flush`."""
    return get_client().flush(timeout)
