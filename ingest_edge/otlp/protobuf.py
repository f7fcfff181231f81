"""Validate OTLP in protobuf, if `PHAROS_OTLP_PROTOBUF` allows it: the rules of JSON on the protocol's own messages."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces

from ingest_edge.limits import Limits
from ingest_edge.otlp import measure_protobuf
from ingest_edge.otlp.expansion import check_expansion
from ingest_edge.otlp.status import error_message
from ingest_edge.otlp.validate_records import MAX_GROUPS, NO_RECORDED_VALUE, Verdict
from pipeline_contracts.errors import InvalidInput, PayloadTooLarge

_NO_TRACE = bytes(16)
_NO_SPAN = bytes(8)


def validate(path: str, body: bytes, limits: Limits) -> Verdict:
    """Return the accepted and rejected records of a body. Raises `InvalidInput` and `PayloadTooLarge`."""
    request_type, validate_request, shared_bytes, child_bytes = _REQUESTS[path]
    request = request_type()
    try:
        request.ParseFromString(body)
    except DecodeError as error:
        raise InvalidInput(f"The body is not a valid {request_type.DESCRIPTOR.name}.") from error
    verdict = Verdict()
    validate_request(request, verdict, len(body), limits)
    check_expansion(
        measure_protobuf.PROTOBUF,
        body,
        verdict.accepted,
        lambda: shared_bytes(request),
        lambda: child_bytes(request),
        limits.expanded_bytes,
    )
    return verdict


def success_body(path: str, verdict: Verdict) -> bytes:
    """Return the body of the response to an accepted request: empty, or a partial success."""
    response_type, rejected_name = _RESPONSES[path]
    message = response_type()
    rejected = verdict.rejections
    if rejected:
        setattr(message.partial_success, rejected_name, rejected)
        message.partial_success.error_message = error_message(verdict.reasons, rejected)
    return message.SerializeToString()  # type: ignore[no-any-return]


def _scope_groups(resources: Any, name: str) -> Iterator[Any]:
    """Yield the scopes of all resources. Raises `PayloadTooLarge`."""
    groups = len(resources)
    for resource_group in resources:
        scopes = getattr(resource_group, name)
        groups += len(scopes)
        if groups > MAX_GROUPS:
            raise PayloadTooLarge(
                f"There are more than {MAX_GROUPS} resources and scopes. Send smaller batches."
            )
        yield from scopes


def _validate_traces(request: Any, verdict: Verdict, _size: int, _limits: Limits) -> None:
    for scope_group in _scope_groups(request.resource_spans, "scope_spans"):
        for span in scope_group.spans:
            trace_id, span_id = span.trace_id, span.span_id
            if len(trace_id) != 16 or trace_id == _NO_TRACE:
                verdict.reject(f"span {span.name!r:.60}: trace_id must be 16 bytes, not all 0")
            elif len(span_id) != 8 or span_id == _NO_SPAN:
                verdict.reject(f"span {span.name!r:.60}: span_id must be 8 bytes, not all 0")
            elif span.end_time_unix_nano < span.start_time_unix_nano:
                verdict.reject(f"span {span.name!r:.60}: end_time_unix_nano is before start_time_unix_nano")
            else:
                verdict.accept(1)


def _validate_logs(request: Any, verdict: Verdict, size: int, limits: Limits) -> None:
    for scope_group in _scope_groups(request.resource_logs, "scope_logs"):
        for record in scope_group.log_records:
            if size > limits.event_bytes and record.ByteSize() > limits.event_bytes:
                verdict.reject(f"a log record is over {limits.event_bytes} bytes")
            else:
                verdict.accept(1)


def _validate_metrics(request: Any, verdict: Verdict, _size: int, _limits: Limits) -> None:
    for scope_group in _scope_groups(request.resource_metrics, "scope_metrics"):
        for metric in scope_group.metrics:
            kind = metric.WhichOneof("data")
            label = ""
            for point in measure_protobuf.points_of(metric, kind):
                if not point.time_unix_nano:
                    fault = "it has no time_unix_nano"
                elif (
                    # An absent count is 0: the other kinds always have a value.
                    kind in ("gauge", "sum")
                    and point.WhichOneof("value") is None
                    and not point.flags & NO_RECORDED_VALUE
                ):
                    fault = "it has no value of its kind"
                else:
                    verdict.accept(1)
                    continue
                # Formatted once, because `repr` of a long name for each of many points would be slow.
                label = label or f"data point of {metric.name!r:.60}"
                verdict.reject(f"{label}: {fault}")


_Validate = Callable[[Any, Verdict, int, Limits], None]
_Measure = Callable[[Any], int]
_REQUESTS: Mapping[str, tuple[type[Message], _Validate, _Measure, _Measure]] = {
    "v1/traces": (
        traces.ExportTraceServiceRequest,
        _validate_traces,
        measure_protobuf.shared_bytes_of_spans,
        measure_protobuf.child_bytes_of_spans,
    ),
    "v1/logs": (
        logs.ExportLogsServiceRequest,
        _validate_logs,
        measure_protobuf.shared_bytes_of_logs,
        measure_protobuf.child_bytes_of_logs,
    ),
    "v1/metrics": (
        metrics.ExportMetricsServiceRequest,
        _validate_metrics,
        measure_protobuf.shared_bytes_of_points,
        measure_protobuf.child_bytes_of_points,
    ),
}
_RESPONSES: Mapping[str, tuple[Any, str]] = {
    "v1/traces": (traces.ExportTraceServiceResponse, "rejected_spans"),
    "v1/logs": (logs.ExportLogsServiceResponse, "rejected_log_records"),
    "v1/metrics": (metrics.ExportMetricsServiceResponse, "rejected_data_points"),
}
