"""Small OTLP bodies with large rows. The name of each body is that of the part that expands."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.otlp.requests import SPAN_ID, TRACE_ID, attribute, logs, metrics, traces

_POINT = {"timeUnixNano": "1", "asInt": "1"}
_SPAN = {"traceId": TRACE_ID, "spanId": SPAN_ID}


Make = Callable[[float], bytes]


@dataclass(frozen=True, slots=True)
class ExpandingBody:
    """`json` and `protobuf` build the body, scaled by a factor; None if the body needs the other encoding."""

    signal: str
    json: Make | None = None
    protobuf: Make | None = None


def shared_attribute_logs(times: float) -> bytes:
    """One attribute of the resource, shared by empty records."""
    body = logs(*[{}] * int(10_801 * times))
    body["resourceLogs"][0]["resource"] = {"attributes": [attribute("a", stringValue="x" * 32_600)]}
    return _compact(body)


def _shared_attribute_logs_protobuf(times: float) -> bytes:
    request = ExportLogsServiceRequest()
    of_resource = request.resource_logs.add()
    of_resource.resource.attributes.add(key="a").value.string_value = "x" * 32_600
    of_scope = of_resource.scope_logs.add()
    for _ in range(int(10_801 * times)):
        of_scope.log_records.add()
    return request.SerializeToString()


def _shared_control_characters_protobuf(times: float) -> bytes:
    """A control character has one byte in protobuf and six in JSON."""
    request = ExportLogsServiceRequest()
    of_resource = request.resource_logs.add()
    of_resource.resource.attributes.add(key="a").value.string_value = "\x01" * 3_200
    of_scope = of_resource.scope_logs.add()
    for _ in range(int(10_000 * times)):
        of_scope.log_records.add(severity_text="x" * 10)
    return request.SerializeToString()


def _scope_attribute_traces(times: float) -> bytes:
    body = traces(*[_SPAN] * int(800 * times))
    body["resourceSpans"][0]["scopeSpans"][0]["scope"] = {
        "attributes": [attribute("a", stringValue="x" * 2**18)]
    }
    return _compact(body)


def _schema_url_traces(times: float) -> bytes:
    body = traces(*[_SPAN] * int(800 * times))
    body["resourceSpans"][0]["schemaUrl"] = "x" * 2**18
    return _compact(body)


def _service_name_logs(times: float) -> bytes:
    """The service name is also stored in a separate column."""
    body = logs(*[{}] * int(1_000 * times))
    name = attribute("service.name", stringValue="x" * 2**16)
    body["resourceLogs"][0]["resource"] = {"attributes": [name]}
    return _compact(body)


def _description_metrics(character: str, times: float) -> bytes:
    points = {"dataPoints": [_POINT] * int(3_000 * times)}
    return _compact(metrics({"name": "m", "description": character * 30_000, "sum": points}))


def _exemplars_protobuf(times: float) -> bytes:
    """An exemplar has two bytes in the body and thirty-five in the row."""
    request = ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add()
    point = metric.sum.data_points.add(time_unix_nano=1, as_int=1)
    return _with_repeated(request, point, b"\x2a\x00", int(2_000_000 * times))


def _events_protobuf(times: float) -> bytes:
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add()
    span.trace_id, span.span_id = bytes.fromhex(TRACE_ID), bytes.fromhex(SPAN_ID)
    return _with_repeated(request, span, b"\x5a\x00", int(2_000_000 * times))


def _bounds_metrics(times: float) -> bytes:
    point = {"timeUnixNano": "1", "count": "1", "explicitBounds": "BOUNDS"}
    body = _compact(metrics({"name": "m", "histogram": {"dataPoints": [point]}}))
    return body.replace(b'"BOUNDS"', b"[" + b",".join([b"1e15"] * int(4_000_000 * times)) + b"]")


def _with_repeated(request: Any, message: Any, field: bytes, times: int) -> bytes:
    """Repeat an empty member of the message's list; `field` is its encoding."""
    # Parsing appends to the existing members.
    message.MergeFromString(field * times)
    data: bytes = request.SerializeToString()
    return data


def _compact(body: Any) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


BODIES: Mapping[str, ExpandingBody] = {
    "a resource's attribute": ExpandingBody("logs", shared_attribute_logs, _shared_attribute_logs_protobuf),
    "control characters": ExpandingBody("logs", None, _shared_control_characters_protobuf),
    "a scope's attribute": ExpandingBody("traces", _scope_attribute_traces),
    "a schema URL": ExpandingBody("traces", _schema_url_traces),
    "the service's name": ExpandingBody("logs", _service_name_logs),
    "a metric's description": ExpandingBody("metrics", partial(_description_metrics, "x")),
    "a description of escapes": ExpandingBody("metrics", partial(_description_metrics, "\x01")),
    "exemplars": ExpandingBody("metrics", None, _exemplars_protobuf),
    "events of a span": ExpandingBody("traces", None, _events_protobuf),
    "bounds of a histogram": ExpandingBody("metrics", _bounds_metrics),
}
