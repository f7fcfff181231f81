"""The wire format of one telemetry event and of the batch that carries events (`POST /v1/ingest`).

Decoding into these structs is the validation: the edge refuses what does not fit, the consumer reads the same
bytes into the same fields. Members of free form are never built as objects: the edge skips them, and the consumer
stores them as raw JSON.
"""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

EventType = Literal["request", "query", "job", "exception", "log", "metric"]
Severity = Literal["debug", "info", "warning", "error", "critical"]
# RFC 3339 requires an offset: without one, a time depends on the time zone of its reader.
Timestamp = Annotated[datetime, Meta(tz=True)]
# The range of a signed 64-bit column.
Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
BatchId = Annotated[str, Meta(min_length=1, max_length=100)]


class FreeForm(Struct, gc=False):
    """An object with any members, which the decoder skips."""


class TelemetryEvent(Struct, gc=False, omit_defaults=True):
    """One event, with the fields of the public API."""

    type: EventType
    id: str | None = None
    severity: Severity | None = None
    name: str | None = None
    title: str | None = None
    timestamp: Timestamp | None = None
    trace_id: str | None = None
    span_id: str | None = None
    parent_span_id: str | None = None
    route: str | None = None
    url: str | None = None
    service: str | None = None
    status_code: Integer | None = None
    duration_ms: float | None = None
    fingerprint: str | None = None
    affected_users: Integer | None = None
    details: str | None = None
    attributes: FreeForm | None = None
    payload: FreeForm | None = None


class TelemetryBatch(Struct, gc=False):
    """The body of an ingest request."""

    batch_id: BatchId
    events: list[TelemetryEvent]
