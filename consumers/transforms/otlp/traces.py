"""Makes rows of `otel_traces`."""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Raw, field

from consumers.transforms.otlp.shared_columns import RecordOrigin, TablePiece, encode_rows, hex_id
from consumers.transforms.otlp.text_values import text_map
from pipeline_contracts.otlp.traces import Span, SpanEvent, SpanLink, TracesRequest

TABLE = "pharos.otel_traces"
_KINDS = ("Unspecified", "Internal", "Server", "Client", "Producer", "Consumer")
_STATUSES = ("Unset", "Ok", "Error")
_MAX_UINT64 = 2**64 - 1


class SpanRow(msgspec.Struct, omit_defaults=True, gc=False):
    """The columns of a span. The exporter uses the same names."""

    Timestamp: str
    TraceId: str
    SpanId: str
    SpanName: str
    SpanKind: str
    StatusCode: str
    Duration: int
    """The duration in nanoseconds."""
    SpanAttributes: dict[str, str]
    ServiceName: Raw
    """Also contains the other columns of the scope: see `RecordOrigin.shared_columns`."""
    ParentSpanId: str = ""
    TraceState: str = ""
    StatusMessage: str = ""
    Flags: int = 0
    event_times: Sequence[str] = field(name="Events.Timestamp", default=())
    event_names: Sequence[str] = field(name="Events.Name", default=())
    event_attributes: Sequence[dict[str, str]] = field(name="Events.Attributes", default=())
    link_traces: Sequence[str] = field(name="Links.TraceId", default=())
    link_spans: Sequence[str] = field(name="Links.SpanId", default=())
    link_states: Sequence[str] = field(name="Links.TraceState", default=())
    link_attributes: Sequence[dict[str, str]] = field(name="Links.Attributes", default=())


def trace_rows(request: TracesRequest, origin: RecordOrigin) -> Iterator[TablePiece]:
    """Yield the rows of all spans that the edge has accepted."""
    return encode_rows(TABLE, request.by_scope(), _row, origin)


def _row(span: Span, origin: RecordOrigin, shared: Raw) -> SpanRow:
    start = span.startTimeUnixNano or 0
    kind = span.kind or 0
    row = SpanRow(
        origin.time(start),
        # The edge has checked that these members are valid IDs.
        span.traceId.lower(),  # type: ignore[union-attr]
        span.spanId.lower(),  # type: ignore[union-attr]
        span.name or "",
        _KINDS[kind] if 0 <= kind < len(_KINDS) else _KINDS[0],
        _STATUSES[0],
        min((span.endTimeUnixNano or 0) - start, _MAX_UINT64),
        text_map(span.attributes),
        shared,
        hex_id(span.parentSpanId, 16),
        span.traceState or "",
    )
    row.Flags = span.flags or 0
    status = span.status
    if status is not None:
        code = status.code or 0
        row.StatusCode = _STATUSES[code] if 0 <= code < len(_STATUSES) else _STATUSES[0]
        row.StatusMessage = status.message or ""
    if span.events:
        _add_events(row, span.events, origin)
    if span.links:
        _add_links(row, span.links)
    return row


def _add_events(row: SpanRow, events: list[SpanEvent], origin: RecordOrigin) -> None:
    row.event_times = [origin.time(event.timeUnixNano) for event in events]
    row.event_names = [event.name or "" for event in events]
    row.event_attributes = [text_map(event.attributes) for event in events]


def _add_links(row: SpanRow, links: list[SpanLink]) -> None:
    row.link_traces = [hex_id(link.traceId, 32) for link in links]
    row.link_spans = [hex_id(link.spanId, 16) for link in links]
    row.link_states = [link.traceState or "" for link in links]
    row.link_attributes = [text_map(link.attributes) for link in links]
