"""Rejected records: exact counts, and all other records are stored."""

import json
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics_service
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace_service

from tests.otlp.conftest import StartPipeline
from tests.otlp.requests import SPAN_ID, TRACE_ID, attribute, logs, metrics, span, traces
from tests.support.otlp_pipeline import PROTOBUF, OtlpPipeline

BAD_SPANS: dict[str, dict[str, Any]] = {
    "no trace ID": span(traceId=None),
    "an empty trace ID": span(traceId=""),
    "a short trace ID": span(traceId=TRACE_ID[:-2]),
    "a long trace ID": span(traceId=TRACE_ID + "00"),
    "a trace ID of zeros": span(traceId="0" * 32),
    "a trace ID that is not hexadecimal": span(traceId="g" * 32),
    "a trace ID in base64": span(traceId="W47/95gDgQPSabYzgT/GDA=="),
    "a trace ID with spaces": span(traceId=TRACE_ID[:30] + "  "),
    "no span ID": span(spanId=None),
    "a short span ID": span(spanId=SPAN_ID[:-2]),
    "a span ID of zeros": span(spanId="0" * 16),
    "a span ID that is not hexadecimal": span(spanId="x" * 16),
    "end before start": span(endTimeUnixNano="1544712659999999999"),
    "start without end": span(endTimeUnixNano=None),
}
GOOD_SPANS: dict[str, dict[str, Any]] = {
    "a valid one": span(),
    "IDs in upper case": span(traceId=TRACE_ID.upper(), spanId=SPAN_ID.upper()),
    "times as numbers": span(startTimeUnixNano=1544712660000000000, endTimeUnixNano=1544712661000000000),
    "no length": span(endTimeUnixNano="1544712660000000000"),
    "no times": span(startTimeUnixNano=None, endTimeUnixNano=None),
    "no name": span(name=None),
    "a parent of zeros": span(parentSpanId="0" * 16),
    "an unknown kind": span(kind=99),
    "unknown members": span(tomorrow={"deep": [1, 2]}),
    "nulls": span(attributes=None) | {"events": None, "links": None, "status": None, "kind": None},
}


@pytest.mark.parametrize("name", BAD_SPANS)
async def test_invalid_span_is_rejected_and_the_others_stored(pipeline: OtlpPipeline, name: str) -> None:
    body = traces(span(name="first"), BAD_SPANS[name], span(name="last"))
    answer = await pipeline.post("traces", body)
    told = answer.document()["partialSuccess"]
    assert (answer.status, told["rejectedSpans"]) == (200, "1")
    assert told["errorMessage"].startswith("span 'work': ")
    await pipeline.consume()
    assert [row["SpanName"] for row in await pipeline.rows("otel_traces", "SpanName")] == ["first", "last"]


@pytest.mark.parametrize("name", GOOD_SPANS)
async def test_valid_span_is_accepted(pipeline: OtlpPipeline, name: str) -> None:
    answer = await pipeline.post("traces", traces(GOOD_SPANS[name]))
    assert (answer.status, answer.body) == (200, b"{}")
    await pipeline.consume()
    (row,) = await pipeline.rows("otel_traces")
    assert (row["TraceId"], row["SpanId"], row["ParentSpanId"]) == (TRACE_ID, SPAN_ID, "")


async def test_counts_are_exact_over_resources_and_scopes(pipeline: OtlpPipeline) -> None:
    """All kinds of invalid spans among valid ones, in several resources and scopes."""
    resources = []
    for number in range(3):
        scopes = []
        for bad in (list(BAD_SPANS.values())[number::3], [], list(BAD_SPANS.values())[:number]):
            spans = [other for one in bad for other in (one, span(name="kept"))] + [span(name="kept")]
            scopes.append({"scope": {"name": f"scope {number}"}, "spans": spans})
        resources.append({"scopeSpans": scopes})
    rejected = len(BAD_SPANS) + 0 + 1 + 2
    answer = await pipeline.post("traces", {"resourceSpans": resources})
    told = answer.document()["partialSuccess"]
    assert told["rejectedSpans"] == str(rejected)
    assert told["errorMessage"].endswith(f"; and {rejected - 5} more")
    await pipeline.consume()
    rows = await pipeline.rows("otel_traces")
    assert len(rows) == rejected + 9
    assert {row["SpanName"] for row in rows} == {"kept"}


async def test_nothing_is_stored_when_all_are_rejected(pipeline: OtlpPipeline) -> None:
    answer = await pipeline.post("traces", traces(*BAD_SPANS.values()))
    assert answer.document()["partialSuccess"]["rejectedSpans"] == str(len(BAD_SPANS))
    await pipeline.consume()
    assert await pipeline.rows("otel_traces") == []


POINT = {"timeUnixNano": "1544712660300000000"}
BAD_POINTS: list[dict[str, Any]] = [
    {"gauge": {"dataPoints": [{"asDouble": 1}]}},
    {"gauge": {"dataPoints": [{"asDouble": 1, "timeUnixNano": "0"}]}},
    {"gauge": {"dataPoints": [POINT]}},
    {"sum": {"dataPoints": [{"asInt": "5"}]}},
    {"sum": {"dataPoints": [POINT]}},
    {"histogram": {"dataPoints": [{"count": "1"}]}},
    {"exponentialHistogram": {"dataPoints": [{"count": "1"}]}},
    {"summary": {"dataPoints": [{"count": "1"}]}},
]
GOOD_POINTS: list[dict[str, Any]] = [
    {"gauge": {"dataPoints": [{**POINT, "asDouble": 0}]}},
    {"gauge": {"dataPoints": [{**POINT, "asDouble": "NaN"}]}},
    {"gauge": {"dataPoints": [{**POINT, "asDouble": "-Infinity"}]}},
    {"gauge": {"dataPoints": [{**POINT, "flags": 1}]}},
    {"sum": {"dataPoints": [{**POINT, "asInt": "9007199254740993"}], "isMonotonic": True}},
    {"histogram": {"dataPoints": [{**POINT, "count": "0"}]}},
    {"exponentialHistogram": {"dataPoints": [{**POINT, "zeroCount": 2}]}},
    {"summary": {"dataPoints": [{**POINT, "quantileValues": [{"quantile": 0.5, "value": "NaN"}]}]}},
]


async def test_invalid_data_points_are_rejected(pipeline: OtlpPipeline) -> None:
    """Each invalid point is counted; a point flagged as having no recorded value is accepted."""
    listed = [{"name": f"bad {n}", **kind} for n, kind in enumerate(BAD_POINTS)]
    listed += [{"name": f"good {n}", **kind} for n, kind in enumerate(GOOD_POINTS)]
    # Invalid and valid points in turn.
    listed.sort(key=lambda metric: metric["name"].split()[1])
    answer = await pipeline.post("metrics", metrics(*listed, {"name": "no kind"}))
    told = answer.document()["partialSuccess"]
    assert told["rejectedDataPoints"] == str(len(BAD_POINTS))
    await pipeline.consume()
    kinds = ("gauge", "sum", "histogram", "exponential_histogram", "summary")
    rows = [row for kind in kinds for row in await pipeline.rows(f"otel_metrics_{kind}", "MetricName")]
    assert [row["MetricName"] for row in rows] == [f"good {n}" for n in range(len(GOOD_POINTS))]
    assert str(rows[1]["Value"]) == "nan"
    assert rows[2]["Value"] == float("-inf")
    assert str(rows[7]["ValueAtQuantiles.Value"]) == "[nan]"


async def test_log_record_over_the_limit_is_rejected(start_pipeline: StartPipeline) -> None:
    pipeline = await start_pipeline(max_event_bytes=1000)
    small, large = {"body": {"stringValue": "x" * 500}}, {"body": {"stringValue": "x" * 1000}}
    answer = await pipeline.post("logs", logs(small, large, small, large, large))
    told = answer.document()["partialSuccess"]
    assert told["rejectedLogRecords"] == "3"
    assert told["errorMessage"] == "; ".join(["a log record is over 1000 bytes"] * 3)
    await pipeline.consume()
    assert [len(row["Body"]) for row in await pipeline.rows("otel_logs")] == [500, 500]


async def test_protobuf_counts_the_same(start_pipeline: StartPipeline) -> None:
    """The same rules in protobuf; the response is a protobuf message too."""
    pipeline = await start_pipeline(protobuf=True, max_event_bytes=1000)
    headers = {"Content-Type": PROTOBUF}
    request = trace_service.ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for trace_id, span_id, end in [
        (b"\1" * 16, b"\1" * 8, 5),
        (b"\1" * 15, b"\1" * 8, 5),
        (bytes(16), b"\1" * 8, 5),
        (b"\1" * 16, bytes(8), 5),
        (b"\1" * 16, b"\1" * 9, 5),
        (b"\1" * 16, b"\1" * 8, 3),
        (b"\1" * 16, b"\2" * 8, 4),
    ]:
        spans.add(trace_id=trace_id, span_id=span_id, start_time_unix_nano=4, end_time_unix_nano=end)
    answer = await pipeline.post("traces", request.SerializeToString(), headers)
    told = trace_service.ExportTraceServiceResponse.FromString(answer.body).partial_success
    assert (answer.status, answer.content_type, told.rejected_spans) == (200, PROTOBUF, 5)
    assert told.error_message.startswith("span '': trace_id must be 16 bytes, not all 0; ")

    of_metrics = metrics_service.ExportMetricsServiceRequest()
    metric = of_metrics.resource_metrics.add().scope_metrics.add().metrics.add(name="m")
    metric.gauge.data_points.add(time_unix_nano=1)
    metric.gauge.data_points.add(as_int=5)
    metric.gauge.data_points.add(time_unix_nano=1, as_int=0)
    metric.gauge.data_points.add(time_unix_nano=1, flags=1)
    answer = await pipeline.post("metrics", of_metrics.SerializeToString(), headers)
    answered = metrics_service.ExportMetricsServiceResponse.FromString(answer.body)
    assert answered.partial_success.rejected_data_points == 2

    await pipeline.consume()
    assert sorted(row["SpanId"] for row in await pipeline.rows("otel_traces")) == ["01" * 8, "02" * 8]
    assert len(await pipeline.rows("otel_metrics_gauge")) == 2


async def test_log_record_over_the_limit_in_protobuf_is_rejected(start_pipeline: StartPipeline) -> None:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    pipeline = await start_pipeline(protobuf=True)
    request = ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records
    for size in (10, 300_000, 20):
        records.add().body.string_value = "x" * size
    answer = await pipeline.post("logs", request.SerializeToString(), {"Content-Type": PROTOBUF})
    assert ExportLogsServiceResponse.FromString(answer.body).partial_success.rejected_log_records == 1
    await pipeline.consume()
    assert sorted(len(row["Body"]) for row in await pipeline.rows("otel_logs")) == [10, 20]


async def test_long_names_are_truncated_in_the_message(pipeline: OtlpPipeline) -> None:
    answer = await pipeline.post("traces", traces(*[span(name="n" * 10_000, spanId="")] * 100))
    told = answer.document()["partialSuccess"]
    assert told["rejectedSpans"] == "100"
    assert len(told["errorMessage"]) < 1000
    assert json.loads(answer.body)


async def test_attribute_may_have_any_value(pipeline: OtlpPipeline) -> None:
    """Values of all kinds, empty values, and a repeated key."""
    listed = [
        attribute("text", stringValue=""),
        attribute("yes", boolValue=True),
        attribute("no", boolValue=False),
        attribute("most", intValue=str(2**63 - 1)),
        attribute("least", intValue=-(2**63)),
        attribute("third", doubleValue=1 / 3),
        attribute("whole", doubleValue=5),
        attribute("nan", doubleValue="NaN"),
        attribute("huge", doubleValue=1e300),
        attribute("bytes", bytesValue="AAEC"),
        attribute("list", arrayValue={"values": [{"intValue": "1"}, {"stringValue": "a"}, {}]}),
        attribute("empty list", arrayValue={}),
        attribute(
            "map", kvlistValue={"values": [attribute("x", arrayValue={"values": [{"boolValue": True}]})]}
        ),
        attribute("nothing"),
        {"key": "no value"},
        {"key": "null", "value": None},
        attribute("twice", stringValue="first"),
        attribute("twice", stringValue="second"),
        attribute("emoji 🎉\n\"'\\", stringValue="🎉\n\"'\\\u0000"),
    ]
    assert (await pipeline.post("traces", traces(span(attributes=listed)))).body == b"{}"
    await pipeline.consume()
    (row,) = await pipeline.rows("otel_traces")
    assert row["SpanAttributes"] == {
        "text": "",
        "yes": "true",
        "no": "false",
        "most": "9223372036854775807",
        "least": "-9223372036854775808",
        "third": "0.3333333333333333",
        "whole": "5",
        "nan": "NaN",
        "huge": "1e+300",
        "bytes": "AAEC",
        "list": '[1,"a",null]',
        "empty list": "[]",
        "map": '{"x":[true]}',
        "nothing": "",
        "no value": "",
        "null": "",
        "twice": "second",
        "emoji 🎉\n\"'\\": "🎉\n\"'\\\u0000",
    }
