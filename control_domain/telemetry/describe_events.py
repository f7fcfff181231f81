"""Documents of telemetry events and log records."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypedDict

import orjson
from msgspec import Meta

from control_domain.telemetry.time_ranges import format_nanoseconds
from pipeline_contracts.telemetry import EventType
from pipeline_contracts.times import format_time

Attributes = Annotated[
    dict[str, Any], Meta(description="The object as it was sent; empty if it is longer than 16 KiB.")
]
_Truncated = Annotated[
    list[str],
    Meta(
        description="The names of members that were shortened (texts) or left out (objects) because they are long."
    ),
]


class EventDocument(TypedDict):
    """A telemetry event."""

    type: EventType
    id: Annotated[str | None, Meta(description="As the sender named it.")]
    timestamp: str
    received_at: str
    severity: str | None
    name: str | None
    title: str | None
    service: str | None
    trace_id: str | None
    span_id: str | None
    parent_span_id: str | None
    route: str | None
    url: str | None
    status_code: int | None
    duration_ms: float | None
    fingerprint: str | None
    affected_users: int | None
    details: str | None
    attributes: Attributes
    payload: Attributes
    truncated: _Truncated


class LogDocument(TypedDict):
    """A log record: of OTLP, or a telemetry event of the type `log`."""

    timestamp: str
    source: Literal["otlp", "event"]
    severity: Annotated[str | None, Meta(description="As it was sent.", examples=["WARN", "warning"])]
    severity_number: Annotated[
        int,
        Meta(
            description="OpenTelemetry's severity number: 5 debug, 9 info, 13 warning, 17 error, 21 fatal, 0 unknown."
        ),
    ]
    service: str | None
    text: str
    trace_id: str | None
    span_id: str | None
    attributes: Attributes
    truncated: _Truncated


def describe_event(row: Mapping[str, Any]) -> EventDocument:
    """`row`: a row of `newest_events`."""
    others = ("details", "attributes", "payload")
    return {
        "type": row["type"],
        "id": row["shown_id"] or None,
        "timestamp": format_nanoseconds(row["time_ns"]),
        "received_at": format_time(row["received_at"]),
        "severity": row["severity"] or None,
        "name": row["shown_name"] or None,
        "title": row["shown_title"] or None,
        "service": row["shown_service"] or None,
        "trace_id": row["shown_trace_id"] or None,
        "span_id": row["shown_span_id"] or None,
        "parent_span_id": row["shown_parent_span_id"] or None,
        "route": row["shown_route"] or None,
        "url": row["shown_url"] or None,
        "status_code": row["status_code"],
        "duration_ms": row["duration_ms"],
        "fingerprint": row["shown_fingerprint"] or None,
        "affected_users": row["affected_users"],
        "details": row["shown_details"] or None,
        "attributes": _as_sent(row["shown_attributes"]),
        "payload": _as_sent(row["shown_payload"]),
        "truncated": [*row["long_texts"], *(member for member in others if row[f"has_long_{member}"])],
    }


def describe_log(row: Mapping[str, Any]) -> LogDocument:
    """`row`: a row of `newest_logs`."""
    return {
        "timestamp": format_nanoseconds(row["time_ns"]),
        "source": row["source"],
        "severity": row["severity"] or None,
        "severity_number": row["severity_number"],
        "service": row["service"] or None,
        "text": row["text"],
        "trace_id": row["trace_id"] or None,
        "span_id": row["span_id"] or None,
        "attributes": _as_sent(row["attributes_json"]) if row["attributes_json"] else row["attributes"],
        "truncated": [
            *row["long_names"],
            *(member for member in ("text", "attributes") if row[f"has_long_{member}"]),
        ],
    }


def _as_sent(text: str) -> Any:
    """Return the JSON object as its sender wrote it, because Python cannot represent every JSON number."""
    return orjson.Fragment(text) if text else {}
