"""Converts OTLP protobuf messages to the structs of the JSON encoding, so that rows are made from only one form.

The module is imported when the first protobuf body arrives.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from google.protobuf.message import DecodeError
from msgspec import MsgspecError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from pipeline_contracts.otlp import logs, metrics, traces
from pipeline_contracts.otlp.values import (
    LATEST_NANOSECONDS,
    AnyValue,
    ArrayValue,
    KeyValue,
    KeyValueList,
    Resource,
    Scope,
)

T = TypeVar("T")


class BadMessage(MsgspecError):
    """The bytes are not a message of the expected type."""


def _parse(message: Any, body: bytes) -> Any:
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        raise BadMessage(str(error)) from error
    return message


def traces_request(body: bytes) -> traces.TracesRequest:
    """Decode a body. Raises `BadMessage`, as `logs_request` and `metrics_request` do."""
    resources = _parse(ExportTraceServiceRequest(), body).resource_spans
    return traces.TracesRequest(
        [
            traces.ResourceSpans(
                _resource(resource_group),
                [
                    traces.ScopeSpans(*_scope(scope_group, scope_group.spans, _span))
                    for scope_group in resource_group.scope_spans
                ],
                resource_group.schema_url,
            )
            for resource_group in resources
        ]
    )


def logs_request(body: bytes) -> logs.LogsRequest:
    resources = _parse(ExportLogsServiceRequest(), body).resource_logs
    return logs.LogsRequest(
        [
            logs.ResourceLogs(
                _resource(resource_group),
                [
                    logs.ScopeLogs(*_scope(scope_group, scope_group.log_records, _log))
                    for scope_group in resource_group.scope_logs
                ],
                resource_group.schema_url,
            )
            for resource_group in resources
        ]
    )


def metrics_request(body: bytes) -> metrics.MetricsRequest:
    resources = _parse(ExportMetricsServiceRequest(), body).resource_metrics
    return metrics.MetricsRequest(
        [
            metrics.ResourceMetrics(
                _resource(resource_group),
                [
                    metrics.ScopeMetrics(*_scope(scope_group, scope_group.metrics, _metric))
                    for scope_group in resource_group.scope_metrics
                ],
                resource_group.schema_url,
            )
            for resource_group in resources
        ]
    )


def _resource(resource_group: Any) -> Resource:
    return Resource(_attributes(resource_group.resource.attributes))


def _scope(scope_group: Any, records: Iterable[Any], make: Callable[[Any], T]) -> tuple[Scope, list[T], str]:
    scope = scope_group.scope
    return (
        Scope(scope.name, scope.version, _attributes(scope.attributes), scope.dropped_attributes_count),
        [make(record) for record in records],
        scope_group.schema_url,
    )


def _attributes(attributes: Iterable[Any]) -> list[KeyValue]:
    return [KeyValue(attribute.key, _value(attribute.value)) for attribute in attributes]


def _value(value: Any) -> AnyValue:
    kind = value.WhichOneof("value")
    match kind:
        case "string_value":
            return AnyValue(value.string_value)
        case "int_value":
            return AnyValue(intValue=value.int_value)
        case "bool_value":
            return AnyValue(boolValue=value.bool_value)
        case "double_value":
            return AnyValue(doubleValue=value.double_value)
        case "array_value":
            return AnyValue(arrayValue=ArrayValue([_value(member) for member in value.array_value.values]))
        case "kvlist_value":
            return AnyValue(kvlistValue=KeyValueList(_attributes(value.kvlist_value.values)))
        case "bytes_value":
            return AnyValue(bytesValue=value.bytes_value)
    return AnyValue()


def _time(nanoseconds: int) -> int:
    """Return the time, or the latest possible time if it is later, as the edge does for JSON."""
    return min(nanoseconds, LATEST_NANOSECONDS)


def _span(span: Any) -> traces.Span:
    return traces.Span(
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.flags,
        span.name,
        span.kind,
        _time(span.start_time_unix_nano),
        _time(span.end_time_unix_nano),
        _attributes(span.attributes),
        [
            traces.SpanEvent(event.time_unix_nano, event.name, _attributes(event.attributes))
            for event in span.events
        ],
        [
            traces.SpanLink(
                link.trace_id.hex(), link.span_id.hex(), link.trace_state, _attributes(link.attributes)
            )
            for link in span.links
        ],
        traces.SpanStatus(span.status.code, span.status.message) if span.HasField("status") else None,
        span.trace_state,
    )


def _log(record: Any) -> logs.OtlpLogRecord:
    return logs.OtlpLogRecord(
        record.time_unix_nano,
        record.observed_time_unix_nano,
        record.severity_number,
        record.severity_text,
        _value(record.body) if record.HasField("body") else None,
        _attributes(record.attributes),
        record.flags,
        record.trace_id.hex(),
        record.span_id.hex(),
        record.event_name,
    )


def _metric(metric: Any) -> metrics.Metric:
    result = metrics.Metric(metric.name, metric.description, metric.unit)
    match metric.WhichOneof("data"):
        case "gauge":
            result.gauge = metrics.Gauge([_number(point) for point in metric.gauge.data_points])
        case "sum":
            data = metric.sum
            result.sum = metrics.Sum(
                [_number(point) for point in data.data_points],
                data.aggregation_temporality,
                data.is_monotonic,
            )
        case "histogram":
            data = metric.histogram
            result.histogram = metrics.Histogram(
                [_histogram(point) for point in data.data_points], data.aggregation_temporality
            )
        case "exponential_histogram":
            data = metric.exponential_histogram
            result.exponentialHistogram = metrics.ExponentialHistogram(
                [_exponential(point) for point in data.data_points], data.aggregation_temporality
            )
        case "summary":
            result.summary = metrics.Summary([_summary(point) for point in metric.summary.data_points])
    return result


def _common(point: Any) -> dict[str, Any]:
    return {
        "attributes": _attributes(point.attributes),
        "startTimeUnixNano": point.start_time_unix_nano,
        "timeUnixNano": point.time_unix_nano,
        "flags": point.flags,
    }


def _optional(message: Any, name: str) -> Any:
    return getattr(message, name) if message.HasField(name) else None


def _number(point: Any) -> metrics.NumberPoint:
    return metrics.NumberPoint(
        **_common(point),
        asDouble=_optional(point, "as_double"),
        asInt=_optional(point, "as_int"),
        exemplars=_exemplars(point),
    )


def _histogram(point: Any) -> metrics.HistogramPoint:
    return metrics.HistogramPoint(
        **_common(point),
        count=point.count,
        sum=_optional(point, "sum"),
        bucketCounts=list(point.bucket_counts),
        explicitBounds=list(point.explicit_bounds),
        exemplars=_exemplars(point),
        min=_optional(point, "min"),
        max=_optional(point, "max"),
    )


def _exponential(point: Any) -> metrics.ExponentialHistogramPoint:
    return metrics.ExponentialHistogramPoint(
        **_common(point),
        count=point.count,
        sum=_optional(point, "sum"),
        scale=point.scale,
        zeroCount=point.zero_count,
        positive=metrics.Buckets(point.positive.offset, list(point.positive.bucket_counts)),
        negative=metrics.Buckets(point.negative.offset, list(point.negative.bucket_counts)),
        exemplars=_exemplars(point),
        min=_optional(point, "min"),
        max=_optional(point, "max"),
        zeroThreshold=point.zero_threshold,
    )


def _summary(point: Any) -> metrics.SummaryPoint:
    return metrics.SummaryPoint(
        **_common(point),
        count=point.count,
        sum=point.sum,
        quantileValues=[
            metrics.ValueAtQuantile(value.quantile, value.value) for value in point.quantile_values
        ],
    )


def _exemplars(point: Any) -> list[metrics.Exemplar]:
    return [
        metrics.Exemplar(
            _attributes(exemplar.filtered_attributes),
            exemplar.time_unix_nano,
            _optional(exemplar, "as_double"),
            _optional(exemplar, "as_int"),
            exemplar.span_id.hex(),
            exemplar.trace_id.hex(),
        )
        for exemplar in point.exemplars
    ]
