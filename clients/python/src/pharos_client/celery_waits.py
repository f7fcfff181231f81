"""Waiting times of Celery jobs. Celery's messages do not contain the time of sending, so this module adds a header."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

_HEADER = "pharos_sent_at"


def mark_as_sent(headers: Any = None, **_: Any) -> None:
    """Store the time in the headers of a message that is about to be sent."""
    if isinstance(headers, dict):
        headers[_HEADER] = time.time()


def waits_since(headers: Mapping[str, Any]) -> float | None:
    """Return the time at which a job began to wait, in seconds since 1970: the time of sending, or the `eta` if it is
    later."""
    sent = headers.get(_HEADER)
    if not isinstance(sent, (int, float)):
        return None
    try:
        eta = headers.get("eta")
        return (
            max(float(sent), datetime.fromisoformat(eta.replace("Z", "+00:00")).timestamp())
            if eta
            else float(sent)
        )
    except (AttributeError, ValueError):
        return float(sent)


def oldest_request(requests: Iterable[Any]) -> float | None:
    """Return the time since which the first of these requests of a worker waits."""
    known = [waits_since(request.request_dict) for request in requests]
    return min((since for since in known if since is not None), default=None)


def oldest_in_redis(connection: Any, name: str) -> float | None:
    """Return the time since which the first job in a queue waits; None if it is unknown or the broker is not Redis.

    Other brokers cannot show a message without delivering it.
    """
    if connection.transport.driver_type != "redis":
        return None
    channel = connection.default_channel
    # A list for each priority; the oldest message is the last one.
    lists = [name, *(f"{name}{channel.sep}{priority}" for priority in channel.priority_steps if priority)]
    found = []
    for key in lists:
        text = channel.client.lindex(key, -1)
        try:
            since = waits_since(json.loads(text)["headers"]) if text else None
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
        if since is not None:
            found.append(since)
    return min(found, default=None)
