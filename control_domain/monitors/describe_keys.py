"""Documents of the keys of heartbeats and queues, as the public API returns them."""

from datetime import datetime
from typing import Annotated, TypedDict

from msgspec import Meta

from control_domain.keys import KeyState, get_key_state
from control_domain.monitors.describe import HeartbeatDocument, QueueDocument
from control_domain.monitors.ping_keys import PingKey
from control_domain.tables.monitors import MonitorKey
from pipeline_contracts.times import format_optional_time, format_time


class MonitorKeyDocument(TypedDict):
    """A key that reports to one heartbeat or one queue, without its secret."""

    id: int
    state: KeyState
    created_at: str
    expires_at: str | None
    revoked_at: str | None


class CreatedMonitorKey(MonitorKeyDocument):
    """A new key of a heartbeat or a queue."""

    key: Annotated[str, Meta(description="The secret, which is not shown again.")]


class PingUrls(TypedDict):
    """The addresses that a job calls, as paths on the host of Pharos."""

    success: Annotated[
        str,
        Meta(
            description="Append `/` and an exit status to report the status; 0 is a success.",
            examples=["/ping/phr_png_0123456789ABCDEFGHIJKLMNOPQRSTUVxxxxxx"],
        ),
    ]
    start: str
    failure: str


class PingKeyDocument(TypedDict):
    """A ping key, which is part of the addresses that report for its heartbeat."""

    id: int
    state: KeyState
    created_at: str
    revoked_at: str | None
    key: Annotated[
        str | None,
        Meta(
            description="The secret; null if the key is revoked, or the secret that seals it here was replaced."
        ),
    ]
    urls: PingUrls | None


class CreatedHeartbeat(HeartbeatDocument):
    """A new heartbeat with its keys."""

    key: CreatedMonitorKey
    ping_key: PingKeyDocument


class CreatedQueue(QueueDocument):
    """A new queue with its key."""

    key: CreatedMonitorKey


def describe_monitor_key(key: MonitorKey, now: datetime) -> MonitorKeyDocument:
    return {
        "id": key.id,
        "state": get_key_state(key, now),
        "created_at": format_time(key.created_at),
        "expires_at": format_optional_time(key.expires_at),
        "revoked_at": format_optional_time(key.revoked_at),
    }


def describe_new_monitor_key(key: MonitorKey, secret: str, now: datetime) -> CreatedMonitorKey:
    return {**describe_monitor_key(key, now), "key": secret}


def describe_ping_key(ping_key: PingKey, now: datetime) -> PingKeyDocument:
    key, secret = ping_key
    return {
        "id": key.id,
        "state": get_key_state(key, now),
        "created_at": format_time(key.created_at),
        "revoked_at": format_optional_time(key.revoked_at),
        "key": secret,
        "urls": None if secret is None else _describe_urls(f"/ping/{secret}"),
    }


def _describe_urls(success: str) -> PingUrls:
    return {"success": success, "start": f"{success}/start", "failure": f"{success}/fail"}
