"""Records as the edge appends them to the log."""

import json
from typing import Any

from pipeline_contracts import topics
from pipeline_contracts.identifiers import receipt_name
from pipeline_contracts.records import BatchMeta, encode_meta
from storage_backends.event_log.interface import EventLog

RECEIVED_MS = 1_795_000_000_123


def meta(environment: str, batch: str, events: int, received_ms: int = RECEIVED_MS) -> BatchMeta:
    return BatchMeta("acc_1", "prj_1", environment, received_ms, events, batch)


async def append_batch(
    log: EventLog,
    environment: str,
    batch: str,
    events: list[dict[str, Any]],
    *,
    body: bytes | None = None,
    received_ms: int = RECEIVED_MS,
    topic: str = topics.TELEMETRY,
) -> str:
    """Append a batch, or `body` in place of its events; return the receipt's name."""
    name = receipt_name(environment, batch)
    head = encode_meta(meta(environment, batch, len(events), received_ms))
    value = json.dumps({"batch_id": batch, "events": events}).encode() if body is None else body
    await log.append(topic, name.encode(), head, value)
    return name
