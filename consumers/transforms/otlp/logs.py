"""Makes rows of `otel_logs`."""

from collections.abc import Iterator

import msgspec
from msgspec import Raw

from consumers.transforms.otlp.shared_columns import RecordOrigin, TablePiece, encode_rows, hex_id
from consumers.transforms.otlp.text_values import as_text, text_map
from pipeline_contracts.otlp.logs import LogsRequest, OtlpLogRecord

TABLE = "pharos.otel_logs"
_SAMPLED = 0xFF
_MAX_SEVERITY = 24


class LogRow(msgspec.Struct, omit_defaults=True, gc=False):
    """The columns of a log record. The exporter uses the same names."""

    Timestamp: str
    ObservedTimestamp: str
    ServiceName: Raw
    """Also contains the other columns of the scope: see `RecordOrigin.shared_columns`."""
    Body: str = ""
    SeverityText: str = ""
    SeverityNumber: int = 0
    TraceId: str = ""
    SpanId: str = ""
    TraceFlags: int = 0
    EventName: str = ""
    LogAttributes: dict[str, str] = {}


def log_rows(request: LogsRequest, origin: RecordOrigin) -> Iterator[TablePiece]:
    """Yield the rows of all log records that the edge has accepted."""
    return encode_rows(TABLE, request.by_scope(), _row, origin)


def _row(record: OtlpLogRecord, origin: RecordOrigin, shared: Raw) -> LogRow:
    received = origin.meta.received_ms * 1_000_000
    observed = record.observedTimeUnixNano or record.timeUnixNano or received
    severity = record.severityNumber or 0
    return LogRow(
        # The OTLP specification's order: the time of the event, or else the time of its
        # observation.
        origin.time(record.timeUnixNano or observed),
        origin.time(observed),
        shared,
        as_text(record.body),
        record.severityText or "",
        severity if 0 <= severity <= _MAX_SEVERITY else 0,
        hex_id(record.traceId, 32),
        hex_id(record.spanId, 16),
        (record.flags or 0) & _SAMPLED,
        record.eventName or "",
        text_map(record.attributes),
    )
