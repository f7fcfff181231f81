"""The examples of the specification are stored field by field, in JSON and in protobuf."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.otlp.conftest import StartPipeline
from tests.support.otlp_pipeline import JSON, PROTOBUF, OtlpPipeline

_EXAMPLES = Path("../shared/testdata/otlp")
pytestmark = pytest.mark.skipif(
    not _EXAMPLES.exists(), reason="the published examples are not next to the project"
)

_SERVICE = {"service.name": "my.service"}
_SCOPE = {"my.scope.attribute": "some scope attribute"}
_MOMENT = datetime(2018, 12, 13, 14, 51, 0, 300000, tzinfo=UTC)
_MESSAGES: dict[str, Any] = {
    "traces": ExportTraceServiceRequest,
    "logs": ExportLogsServiceRequest,
    "metrics": ExportMetricsServiceRequest,
}


@pytest.fixture(params=[JSON, PROTOBUF])
async def pipeline(request: pytest.FixtureRequest, start_pipeline: StartPipeline) -> OtlpPipeline:
    started: OtlpPipeline = await start_pipeline(protobuf=True)
    started.content_type = request.param
    return started


async def _send(pipeline: OtlpPipeline, signal: str, name: str) -> None:
    text = (_EXAMPLES / f"{name}.json").read_bytes()
    body = text if pipeline.content_type == JSON else _in_protobuf(signal, json.loads(text))
    answer = await pipeline.post(signal, body, {"Content-Type": pipeline.content_type})
    assert (answer.status, answer.content_type) == (200, pipeline.content_type)
    assert answer.body == (b"{}" if pipeline.content_type == JSON else b"")
    await pipeline.consume()


def _in_protobuf(signal: str, document: Any) -> bytes:
    """Encode the request in protobuf. Protobuf's own JSON has IDs in base64, OTLP's in hexadecimal."""
    import base64

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                name: base64.b64encode(bytes.fromhex(member)).decode()
                if name in ("traceId", "spanId", "parentSpanId")
                else walk(member)
                for name, member in value.items()
            }
        return [walk(member) for member in value] if isinstance(value, list) else value

    data: bytes = ParseDict(walk(document), _MESSAGES[signal]()).SerializeToString()
    return data


def _known(row: dict[str, Any], **expected: Any) -> None:
    """The row has these values, and nothing in the exporter's other columns."""
    ours = {"EnvironmentId", "ReceivedAt", "log", "log_offset"}
    other = {name: value for name, value in row.items() if name not in expected and name not in ours}
    assert {name: row[name] for name in expected} == expected
    assert {name: value for name, value in other.items() if value not in (0, "", [], {}, False)} == {}


async def test_trace(pipeline: OtlpPipeline) -> None:
    await _send(pipeline, "traces", "trace")
    (row,) = await pipeline.rows("otel_traces")
    _known(
        row,
        Timestamp=datetime(2018, 12, 13, 14, 51, tzinfo=UTC),
        TraceId="5b8efff798038103d269b633813fc60c",
        SpanId="eee19b7ec3c1b174",
        ParentSpanId="eee19b7ec3c1b173",
        SpanName="I'm a server span",
        SpanKind="Server",
        ServiceName="my.service",
        ResourceAttributes=_SERVICE,
        ScopeName="my.library",
        ScopeVersion="1.0.0",
        ScopeAttributes=_SCOPE,
        SpanAttributes={"my.span.attr": "some value"},
        Duration=1_000_000_000,
        StatusCode="Unset",
    )


async def test_logs(pipeline: OtlpPipeline) -> None:
    await _send(pipeline, "logs", "logs")
    (row,) = await pipeline.rows("otel_logs")
    _known(
        row,
        Timestamp=_MOMENT,
        TimestampTime=_MOMENT.replace(microsecond=0),
        ObservedTimestamp=_MOMENT,
        TraceId="5b8efff798038103d269b633813fc60c",
        SpanId="eee19b7ec3c1b174",
        SeverityText="Information",
        SeverityNumber=10,
        ServiceName="my.service",
        Body="Example log record",
        ResourceAttributes=_SERVICE,
        ScopeName="my.library",
        ScopeVersion="1.0.0",
        ScopeAttributes=_SCOPE,
        LogAttributes={
            "string.attribute": "some string",
            "boolean.attribute": "true",
            "int.attribute": "10",
            "double.attribute": "637.704",
            "array.attribute": '["many","values"]',
            "map.attribute": '{"some.map.key":"some value"}',
        },
    )


async def test_events(pipeline: OtlpPipeline) -> None:
    await _send(pipeline, "logs", "events")
    (row,) = await pipeline.rows("otel_logs")
    _known(
        row,
        Timestamp=_MOMENT,
        TimestampTime=_MOMENT.replace(microsecond=0),
        ObservedTimestamp=_MOMENT,
        EventName="browser.page_view",
        SeverityText="test severity text",
        SeverityNumber=9,
        ServiceName="my.service",
        Body=json.dumps(
            {
                "type": 0,
                "url": "https://www.guidgenerator.com/online-guid-generator.aspx",
                "referrer": "https://wwww.google.com",
                "title": "Free Online GUID Generator",
            },
            separators=(",", ":"),
        ),
        ResourceAttributes=_SERVICE,
        ScopeName="my.library",
        ScopeVersion="1.0.0",
        ScopeAttributes=_SCOPE,
        LogAttributes={"event.attribute": "some event attribute"},
    )


async def test_metrics(pipeline: OtlpPipeline) -> None:
    await _send(pipeline, "metrics", "metrics")
    common: dict[str, Any] = {
        "ServiceName": "my.service",
        "ResourceAttributes": _SERVICE,
        "ScopeName": "my.library",
        "ScopeVersion": "1.0.0",
        "ScopeAttributes": _SCOPE,
        "MetricUnit": "1",
        "TimeUnix": _MOMENT,
    }
    never = datetime(1970, 1, 1, tzinfo=UTC)
    (row,) = await pipeline.rows("otel_metrics_sum")
    _known(
        row,
        **common,
        MetricName="my.counter",
        MetricDescription="I am a Counter",
        Attributes={"my.counter.attr": "some value"},
        StartTimeUnix=_MOMENT,
        Value=5.0,
        AggregationTemporality=1,
        IsMonotonic=True,
    )
    (row,) = await pipeline.rows("otel_metrics_gauge")
    _known(
        row,
        **common,
        MetricName="my.gauge",
        MetricDescription="I am a Gauge",
        Attributes={"my.gauge.attr": "some value"},
        StartTimeUnix=never,
        Value=10.0,
    )
    (row,) = await pipeline.rows("otel_metrics_histogram")
    _known(
        row,
        **common,
        MetricName="my.histogram",
        MetricDescription="I am a Histogram",
        Attributes={"my.histogram.attr": "some value"},
        StartTimeUnix=_MOMENT,
        Count=2,
        Sum=2.0,
        BucketCounts=[1, 1],
        ExplicitBounds=[1.0],
        Max=2.0,
        AggregationTemporality=1,
    )
    (row,) = await pipeline.rows("otel_metrics_exponential_histogram")
    _known(
        row,
        **common,
        MetricName="my.exponential.histogram",
        MetricDescription="I am an Exponential Histogram",
        Attributes={"my.exponential.histogram.attr": "some value"},
        StartTimeUnix=_MOMENT,
        Count=3,
        Sum=10.0,
        ZeroCount=1,
        PositiveOffset=1,
        PositiveBucketCounts=[0, 2],
        Max=5.0,
        AggregationTemporality=1,
    )
    assert await pipeline.rows("otel_metrics_summary") == []
