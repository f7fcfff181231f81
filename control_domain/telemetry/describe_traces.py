"""Documents of traces and their spans."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta

from analytics_queries.telemetry.span_tree import span_tree
from control_domain.telemetry.time_ranges import format_nanoseconds

MAX_SPANS = 5000
TraceId = Annotated[
    str, Meta(description="32 hexadecimal digits.", examples=["4bf92f3577b34da6a3ce929d0e0e4736"])
]


class TraceSummary(TypedDict):
    """A trace of OTLP spans."""

    id: TraceId
    started_at: str
    duration_ms: Annotated[
        float, Meta(description="From the start of the first span to the end of the last one.")
    ]
    name: Annotated[str, Meta(description="The name of the root span, or of the first span without one.")]
    service: Annotated[str | None, Meta(description="The service of the span that `name` is taken from.")]
    services: Annotated[list[str], Meta(description="Up to 20.")]
    spans: int
    errors: Annotated[int, Meta(description="Spans with the status Error.")]


class SpanEventDocument(TypedDict):
    """An event of a span."""

    name: str
    offset_ms: Annotated[float, Meta(description="From the start of the trace.")]
    attributes: dict[str, str]


class SpanDocument(TypedDict):
    """A span, with its place in the tree."""

    id: str
    parent_id: Annotated[str | None, Meta(description="The span's parent, which may not be in the trace.")]
    depth: Annotated[int, Meta(description="0 for a span without a parent in the trace.")]
    name: str
    kind: Literal["Unspecified", "Internal", "Server", "Client", "Producer", "Consumer"]
    service: str | None
    started_at: str
    offset_ms: Annotated[float, Meta(description="From the start of the trace.")]
    duration_ms: float
    status: Literal["Unset", "Ok", "Error"]
    status_message: str | None
    attributes: Annotated[
        dict[str, str],
        Meta(
            description="The attributes as they were sent; empty if longer than 4 KiB, or after 8 MiB of earlier spans."
        ),
    ]
    events: Annotated[
        list[SpanEventDocument], Meta(description="The first 20 events; none after 8 MiB of earlier spans.")
    ]


class TraceDocument(TraceSummary):
    """A trace with its spans."""

    truncated: Annotated[bool, Meta(description=f"True if the trace has more than {MAX_SPANS:,} spans.")]
    tree: Annotated[
        list[SpanDocument],
        Meta(
            description="The spans in depth-first order: a span follows its parent, and siblings are ordered by time."
        ),
    ]


def describe_trace_summary(row: Mapping[str, Any]) -> TraceSummary:
    """`row`: a row of `newest_traces`."""
    return {
        "id": row["trace_id"],
        "started_at": format_nanoseconds(row["started_ns"]),
        "duration_ms": row["duration_ms"],
        "name": row["name"],
        "service": row["service"] or None,
        "services": row["services"],
        "spans": row["spans"],
        "errors": row["errors"],
    }


def describe_trace(trace_id: str, rows: Sequence[Mapping[str, Any]]) -> TraceDocument:
    """`rows`: one or more rows of `trace_spans`; rows after the 5,000th are left out."""
    is_truncated = len(rows) > MAX_SPANS
    rows = rows[:MAX_SPANS]
    began = rows[0]["started_ns"]
    placed = span_tree([(row["span_id"], row["parent_span_id"]) for row in rows])
    main = rows[next((place for place, row in enumerate(rows) if not row["parent_span_id"]), 0)]
    ended = max(row["started_ns"] + row["duration_ns"] for row in rows)
    return {
        "id": trace_id,
        "started_at": format_nanoseconds(began),
        "duration_ms": _milliseconds(ended - began),
        "name": main["name"],
        "service": main["service"] or None,
        "services": sorted({row["service"] for row in rows})[:20],
        "spans": len(rows),
        "errors": sum(row["status"] == "Error" for row in rows),
        "truncated": is_truncated,
        "tree": [_describe_span(rows[span.place], span.depth, began) for span in placed],
    }


def _describe_span(row: Mapping[str, Any], depth: int, began: int) -> SpanDocument:
    events = zip(row["event_names"], row["event_times_ns"], row["event_attributes"], strict=True)
    return {
        "id": row["span_id"],
        "parent_id": row["parent_span_id"] or None,
        "depth": depth,
        "name": row["name"],
        "kind": row["kind"],
        "service": row["service"] or None,
        "started_at": format_nanoseconds(row["started_ns"]),
        "offset_ms": _milliseconds(row["started_ns"] - began),
        "duration_ms": _milliseconds(row["duration_ns"]),
        "status": row["status"],
        "status_message": row["status_message"] or None,
        "attributes": row["attributes"],
        "events": [
            {"name": name, "offset_ms": _milliseconds(at - began), "attributes": attributes}
            for name, at, attributes in events
        ],
    }


def _milliseconds(nanoseconds: int) -> float:
    return nanoseconds / 1e6
