"""Validate OTLP bodies with the accelerator."""

from collections.abc import Callable, Mapping

from ingest_edge.accelerator import Accelerator, Measured
from ingest_edge.limits import Limits
from ingest_edge.otlp import measure_json, measure_protobuf
from ingest_edge.otlp.decode import has_too_many_objects
from ingest_edge.otlp.expansion import EVENT_BYTES, EXEMPLAR_BYTES, Coding, check_expansion
from ingest_edge.otlp.validate_records import MAX_GROUPS, MAX_RECORDS
from pipeline_contracts.errors import PayloadTooLarge

CountRecords = Callable[[bytes], int | None]
"""Returns the number of records in a body if all are valid and the body needs no repair. Returns None if the
accelerator is not sure."""

_TRACES, _LOGS, _METRICS = "v1/traces", "v1/logs", "v1/metrics"


def json_counters(accelerator: Accelerator | None, limits: Limits) -> Mapping[str, CountRecords]:
    """Return the functions for bodies in JSON, by path; none without an accelerator."""
    if accelerator is None:
        return {}

    def validate_traces(body: bytes) -> Measured | None:
        return accelerator.validate_traces_json(body, MAX_RECORDS)

    def validate_logs(body: bytes) -> Measured | None:
        return accelerator.validate_logs_json(body, MAX_RECORDS, limits.event_bytes)

    def validate_metrics(body: bytes) -> Measured | None:
        return accelerator.validate_metrics_json(body, MAX_RECORDS)

    def counter(validate: Callable[[bytes], Measured | None], child_bytes: int) -> CountRecords:
        count = _counter(validate, measure_json.JSON, child_bytes, limits)
        return lambda body: None if has_too_many_objects(body) else count(body)

    return {
        _TRACES: counter(validate_traces, EVENT_BYTES),
        _LOGS: counter(validate_logs, 0),
        _METRICS: counter(validate_metrics, EXEMPLAR_BYTES),
    }


def protobuf_counters(accelerator: Accelerator | None, limits: Limits) -> Mapping[str, CountRecords]:
    """Return the functions for bodies in protobuf, by path; none without an accelerator."""
    if accelerator is None:
        return {}

    def validate_traces(body: bytes) -> Measured | None:
        return accelerator.validate_traces_protobuf(body, MAX_RECORDS, MAX_GROUPS)

    def validate_logs(body: bytes) -> Measured | None:
        return accelerator.validate_logs_protobuf(body, MAX_RECORDS, MAX_GROUPS, limits.event_bytes)

    def validate_metrics(body: bytes) -> Measured | None:
        return accelerator.validate_metrics_protobuf(body, MAX_RECORDS, MAX_GROUPS)

    coding = measure_protobuf.PROTOBUF
    return {
        _TRACES: _counter(validate_traces, coding, EVENT_BYTES, limits),
        _LOGS: _counter(validate_logs, coding, 0, limits),
        _METRICS: _counter(validate_metrics, coding, EXEMPLAR_BYTES, limits),
    }


def _counter(
    validate: Callable[[bytes], Measured | None], coding: Coding, child_bytes: int, limits: Limits
) -> CountRecords:
    def count(body: bytes) -> int | None:
        measured = validate(body)
        if measured is None:
            return None
        records, shared, children, numbers = measured
        added = child_bytes * children + measure_json.NUMBER_BYTES * numbers
        try:
            check_expansion(coding, body, records, lambda: shared, lambda: added, limits.expanded_bytes)
        except PayloadTooLarge:
            # The decoders measure more exactly.
            return None
        return records

    return count
