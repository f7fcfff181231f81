"""Rows of `otel_logs`."""

from collections.abc import Iterator

import msgspec
from msgspec import Raw

from consumers.transforms.otlp.shared_columns import Place, TablePiece, hex_id, rows_of
from consumers.transforms.otlp.text_values import as_text, text_map
from pipeline_contracts.otlp.logs import LogsRequest, OtlpLogRecord

TABLE = "pharos.otel_logs"
_SAMPLED = 0xFF
_MOST_SEVERITY = 24


class LogRow(msgspec.Struct, omit_defaults=True, gc=False):
    """A log record's own columns, in the exporter's names."""

    Timestamp: str
    ObservedTimestamp: str
    ServiceName: Raw
    """With the other columns of the scope behind it."""
    Body: str = ""
    SeverityText: str = ""
    SeverityNumber: int = 0
    TraceId: str = ""
    SpanId: str = ""
    TraceFlags: int = 0
    EventName: str = ""
    LogAttributes: dict[str, str] = {}


def log_rows(request: LogsRequest, place: Place) -> Iterator[TablePiece]:
    """The rows of all log records that the edge has taken."""
    return rows_of(TABLE, request.by_scope(), _row, place)


def _row(record: OtlpLogRecord, place: Place, shared: Raw) -> LogRow:
    received = place.meta.received_ms * 1_000_000
    observed = record.observedTimeUnixNano or record.timeUnixNano or received
    severity = record.severityNumber or 0
    return LogRow(
        # The specification's order: the time of the event, else when it was observed.
        place.time(record.timeUnixNano or observed),
        place.time(observed),
        shared,
        as_text(record.body),
        record.severityText or "",
        severity if 0 <= severity <= _MOST_SEVERITY else 0,
        hex_id(record.traceId, 32),
        hex_id(record.spanId, 16),
        (record.flags or 0) & _SAMPLED,
        record.eventName or "",
        text_map(record.attributes),
    )
