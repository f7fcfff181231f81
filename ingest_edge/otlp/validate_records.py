"""Validate the records of an OTLP request: traces, logs or metrics. Invalid records are rejected one by one."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from ingest_edge.limits import Limits
from pipeline_contracts.errors import PayloadTooLarge
from pipeline_contracts.otlp.logs import LogsRequest
from pipeline_contracts.otlp.metrics import DataPoint, Metric, MetricsRequest, NumberPoint
from pipeline_contracts.otlp.traces import Span, TracesRequest

_MAX_REASONS = 5
# The maximum number of records of one insert. Also the maximum of rejected records: each has its index in the log
# record's header, and takes time but no tokens.
MAX_RECORDS = 50_000
# Resources and scopes in protobuf, together. An empty one is two bytes: two million of them would block the edge for
# seconds.
MAX_GROUPS = 100_000

NO_RECORDED_VALUE = 1
"""A flag of DataPointFlags: the point intentionally has no value, because nothing was recorded."""

_NO_TRACE = "0" * 32
_NO_SPAN = "0" * 16

_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class Verdict:
    """The accepted and rejected records of a request: spans, log records or data points."""

    accepted: int = 0
    rejected: list[int] = field(default_factory=list)
    """Indexes of rejected records in the body, from 0."""
    reasons: list[str] = field(default_factory=list)
    """The reasons of the first few rejections."""
    dropped: int = 0
    """Unreadable records that were removed from the body, and so have no index."""

    @property
    def rejections(self) -> int:
        """The number of all records that are not stored."""
        return len(self.rejected) + self.dropped

    def accept(self, count: int) -> None:
        """Accept the next `count` records. Raises `PayloadTooLarge` for more than one insert may have."""
        self.accepted += count
        if self.accepted > MAX_RECORDS:
            raise too_many_records()

    def reject(self, reason: str) -> None:
        """Reject the next record. Raises `PayloadTooLarge` for too many rejected records."""
        self.rejected.append(self.accepted + len(self.rejected))
        if len(self.rejected) > MAX_RECORDS:
            raise too_many_records()
        if len(self.reasons) < _MAX_REASONS:
            self.reasons.append(reason)

    def count_dropped(self, reasons: Sequence[str]) -> None:
        """Count records that were removed from the body; `reasons` has one for each."""
        self.dropped += len(reasons)
        self.reasons += reasons[: max(0, _MAX_REASONS - len(self.reasons))]


def too_many_records() -> PayloadTooLarge:
    """Return the problem for more records than may be accepted, or rejected."""
    return PayloadTooLarge(f"There are more than {MAX_RECORDS} records. Send smaller batches.")


def validate_traces(request: TracesRequest, _size: int, _limits: Limits) -> Verdict:
    """Validate spans: a span needs a trace ID and a span ID, and must not end before it starts."""
    verdict = Verdict()
    for _, _, spans in request.by_scope():
        if _are_all_valid(spans):
            verdict.accept(len(spans))
            continue
        for span in spans:
            fault = _span_fault(span)
            if fault is None:
                verdict.accept(1)
            else:
                verdict.reject(f"span {span.name or ''!r:.60}: {fault}")
    return verdict


def _are_all_valid(spans: list[Span]) -> bool:
    """True if no span has a fault. Checks all IDs at once, in a tenth of the time of single checks."""
    traces = [span.traceId for span in spans]
    ids = [span.spanId for span in spans]
    for span in spans:
        if (span.endTimeUnixNano or 0) < (span.startTimeUnixNano or 0):
            return False
    try:
        return (
            set(map(len, traces)) == {32}  # type: ignore[arg-type]
            and set(map(len, ids)) == {16}  # type: ignore[arg-type]
            and len(bytes.fromhex("".join(traces))) == 16 * len(spans)  # type: ignore[arg-type]
            and len(bytes.fromhex("".join(ids))) == 8 * len(spans)  # type: ignore[arg-type]
            and _NO_TRACE not in traces
            and _NO_SPAN not in ids
        )
    except (TypeError, ValueError):
        return False


def _span_fault(span: Span) -> str | None:
    if not is_hex_id(span.traceId, 32):
        return "traceId must be 32 hexadecimal digits, not all 0"
    if not is_hex_id(span.spanId, 16):
        return "spanId must be 16 hexadecimal digits, not all 0"
    if (span.endTimeUnixNano or 0) < (span.startTimeUnixNano or 0):
        return "endTimeUnixNano is before startTimeUnixNano"
    return None


def is_hex_id(text: str | None, digits: int) -> bool:
    """True if the text has exactly `digits` hexadecimal digits of any case, not all 0."""
    if text is None or len(text) != digits:
        return False
    try:
        data = bytes.fromhex(text)
    except ValueError:
        return False
    # fromhex ignores spaces.
    return len(data) * 2 == digits and any(data)


def validate_logs(request: LogsRequest, size: int, limits: Limits) -> Verdict:
    """Validate log records: a record may be as large as an event. `size` is that of the body in bytes."""
    verdict = Verdict()
    for _, _, records in request.by_scope():
        if size <= limits.event_bytes:
            # No record can be larger than the body.
            verdict.accept(len(records))
            continue
        for record in records:
            if len(_encode(record)) > limits.event_bytes:
                verdict.reject(f"a log record is over {limits.event_bytes} bytes")
            else:
                verdict.accept(1)
    return verdict


def validate_metrics(request: MetricsRequest, _size: int, _limits: Limits) -> Verdict:
    """Validate data points: a point needs a time and a value of its kind."""
    verdict = Verdict()
    for _, _, metrics in request.by_scope():
        for metric in metrics:
            for _, data in metric.data_by_kind():
                _validate_points(metric, data.dataPoints or (), verdict)
    return verdict


def _validate_points(metric: Metric, points: Sequence[DataPoint], verdict: Verdict) -> None:
    label = ""
    for point in points:
        if not point.timeUnixNano:
            fault = "it has no timeUnixNano"
        elif not _has_value(point) and not (point.flags or 0) & NO_RECORDED_VALUE:
            fault = "it has no value of its kind"
        else:
            verdict.accept(1)
            continue
        # Formatted once, because `repr` of a long name for each of many points would be slow.
        label = label or f"data point of {metric.name or ''!r:.60}"
        verdict.reject(f"{label}: {fault}")


def _has_value(point: DataPoint) -> bool:
    # An absent count is 0, in JSON as in protobuf: the other kinds always have a value.
    return not isinstance(point, NumberPoint) or point.asDouble is not None or point.asInt is not None
