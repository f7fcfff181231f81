"""OTLP in protobuf, where `PHAROS_OTLP_PROTOBUF` allows it: the same rules, on the protocol's own messages."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from aiohttp import web
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces

from ingest_edge.limits import Limits
from ingest_edge.otlp import measure_protobuf
from ingest_edge.otlp.expansion import check_expansion
from ingest_edge.otlp.judge_metrics import NO_RECORDED_VALUE
from ingest_edge.otlp.status import PROTOBUF, error_message
from ingest_edge.otlp.verdict import Verdict
from pipeline_contracts.errors import InvalidInput, PayloadTooLarge

_NO_TRACE = bytes(16)
_NO_SPAN = bytes(8)
# Resources and scopes. An empty one is two bytes: two million of them would hold up the edge for seconds.
_MOST_HOLDERS = 100_000


def judge(path: str, body: bytes, limits: Limits) -> Verdict:
    """Which records of the body are taken. Raises `InvalidInput` and `PayloadTooLarge`."""
    request_type, judge_request, shared, children = _REQUESTS[path]
    request = request_type()
    try:
        request.ParseFromString(body)
    except DecodeError as error:
        raise InvalidInput(f"The body is not a valid {request_type.DESCRIPTOR.name}.") from error
    verdict = Verdict()
    judge_request(request, verdict, len(body), limits)
    check_expansion(
        measure_protobuf.PROTOBUF,
        body,
        verdict.accepted,
        lambda: shared(request),
        lambda: children(request),
        limits.expanded_bytes,
    )
    return verdict


def success_answer(path: str, verdict: Verdict, headers: Mapping[str, str]) -> web.Response:
    """The service's response: empty, or with its partial success."""
    response, name = _RESPONSES[path]
    answer = response()
    rejected = verdict.rejections
    if rejected:
        setattr(answer.partial_success, name, rejected)
        answer.partial_success.error_message = error_message(verdict.reasons, rejected)
    return web.Response(body=answer.SerializeToString(), headers=headers, content_type=PROTOBUF)


def _scopes(resources: Any, name: str) -> Iterator[Any]:
    """The scopes of all resources. Raises `PayloadTooLarge`."""
    holders = len(resources)
    for of_resource in resources:
        scopes = getattr(of_resource, name)
        holders += len(scopes)
        if holders > _MOST_HOLDERS:
            raise PayloadTooLarge(
                f"There are more than {_MOST_HOLDERS} resources and scopes. Send smaller batches."
            )
        yield from scopes


def _judge_traces(request: Any, verdict: Verdict, _size: int, _limits: Limits) -> None:
    for of_scope in _scopes(request.resource_spans, "scope_spans"):
        for span in of_scope.spans:
            trace_id, span_id = span.trace_id, span.span_id
            if len(trace_id) != 16 or trace_id == _NO_TRACE:
                verdict.reject(f"span {span.name!r:.60}: trace_id must be 16 bytes, not all 0")
            elif len(span_id) != 8 or span_id == _NO_SPAN:
                verdict.reject(f"span {span.name!r:.60}: span_id must be 8 bytes, not all 0")
            elif span.end_time_unix_nano < span.start_time_unix_nano:
                verdict.reject(f"span {span.name!r:.60}: end_time_unix_nano is before start_time_unix_nano")
            else:
                verdict.accept(1)


def _judge_logs(request: Any, verdict: Verdict, size: int, limits: Limits) -> None:
    for of_scope in _scopes(request.resource_logs, "scope_logs"):
        for record in of_scope.log_records:
            if size > limits.event_bytes and record.ByteSize() > limits.event_bytes:
                verdict.reject(f"a log record is over {limits.event_bytes} bytes")
            else:
                verdict.accept(1)


def _judge_metrics(request: Any, verdict: Verdict, _size: int, _limits: Limits) -> None:
    for of_scope in _scopes(request.resource_metrics, "scope_metrics"):
        for metric in of_scope.metrics:
            kind = metric.WhichOneof("data")
            named = ""
            for point in measure_protobuf.points_of(metric, kind):
                if not point.time_unix_nano:
                    fault = "it has no time_unix_nano"
                elif (
                    # A count that is 0 does not show in a message: the other kinds always have a value.
                    kind in ("gauge", "sum")
                    and point.WhichOneof("value") is None
                    and not point.flags & NO_RECORDED_VALUE
                ):
                    fault = "it has no value of its kind"
                else:
                    verdict.accept(1)
                    continue
                # Made once: a long name would otherwise be written anew for each of many points.
                named = named or f"data point of {metric.name!r:.60}"
                verdict.reject(f"{named}: {fault}")


_Judge = Callable[[Any, Verdict, int, Limits], None]
_Measure = Callable[[Any], int]
_REQUESTS: Mapping[str, tuple[type[Message], _Judge, _Measure, _Measure]] = {
    "v1/traces": (
        traces.ExportTraceServiceRequest,
        _judge_traces,
        measure_protobuf.shared_by_spans,
        measure_protobuf.children_of_spans,
    ),
    "v1/logs": (
        logs.ExportLogsServiceRequest,
        _judge_logs,
        measure_protobuf.shared_by_logs,
        measure_protobuf.children_of_logs,
    ),
    "v1/metrics": (
        metrics.ExportMetricsServiceRequest,
        _judge_metrics,
        measure_protobuf.shared_by_points,
        measure_protobuf.children_of_points,
    ),
}
_RESPONSES: Mapping[str, tuple[Any, str]] = {
    "v1/traces": (traces.ExportTraceServiceResponse, "rejected_spans"),
    "v1/logs": (logs.ExportLogsServiceResponse, "rejected_log_records"),
    "v1/metrics": (metrics.ExportMetricsServiceResponse, "rejected_data_points"),
}
