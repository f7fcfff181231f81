"""The queue monitors of Pharos to which queues report."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pharos_client.diagnostics import warn
from pharos_client.http_post import Response, post
from pharos_client.settings import URL_VARIABLE, split_url

QUEUES_VARIABLE = "PHAROS_QUEUES"

_REQUEST_SECONDS = 5.0
_NAMESPACE = uuid.UUID("b0d5a7d4-5d0e-5c55-9d3c-7a3f8f6f3c11")


@dataclass(frozen=True)
class QueueMonitor:
    """A queue monitor: the root of the API, its number, and its monitor key."""

    api: str
    number: int
    key: str = field(repr=False)

    def send(self, path: str, body: Mapping[str, Any]) -> Response:
        """Send a report to `snapshots` or `workers`. Raises `Unreachable`."""
        return post(
            f"{self.api}/v1/queues/{self.number}/{path}",
            json.dumps(body).encode(),
            {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"},
            _REQUEST_SECONDS,
        )


def read_queue_monitors(
    queues: Mapping[str, str] | None = None, url: str | None = None
) -> Mapping[str, QueueMonitor]:
    """Return the monitors by the name of the queue.

    `queues`: the number and the key of each queue's monitor, `{"mail": "2:phr_mon_…"}`; by default PHAROS_QUEUES, as
    `mail=2:phr_mon_…,default=1:phr_mon_…`. `url`: PHAROS_URL by default. Without queues or an address nothing is
    reported, because applications also run in places without Pharos. Malformed ones are left out of PHAROS_QUEUES with
    a warning, and raise `ValueError` in `queues`. Neither text contains a key.
    """
    from_environment = queues is None
    if queues is None:
        pairs = (
            text.partition("=") for text in os.environ.get(QUEUES_VARIABLE, "").split(",") if text.strip()
        )
        queues = {name.strip(): value for name, _, value in pairs}
    host = split_url(url or os.environ.get(URL_VARIABLE, ""))[0]
    if not queues or not host:
        missing = QUEUES_VARIABLE if not queues else URL_VARIABLE
        warn("queues", f"No queue is reported: {missing} is not set.")
        return {}
    monitors: dict[str, QueueMonitor] = {}
    for name, text in queues.items():
        number, _, key = text.strip().partition(":")
        if not number.isdigit() or not key:
            reason = f"The queue {name[:100]!r} needs NUMBER:KEY of its monitor, as 2:phr_mon_…"
            if not from_environment:
                raise ValueError(reason)
            warn("queues", f"A queue is not reported. {reason}")
            continue
        monitors[name] = QueueMonitor(f"{host}/api", int(number), key.strip())
    return monitors


def derive_uuid(text: str) -> str:
    """Return the UUID in the text, or else a UUID derived from the text."""
    try:
        return str(uuid.UUID(text))
    except ValueError:
        return str(uuid.uuid5(_NAMESPACE, text))
