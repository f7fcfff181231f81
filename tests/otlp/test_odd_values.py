"""Values that no column can store as sent: the closest value is stored, or only their record is rejected."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import msgspec
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ingest_edge.otlp.decode import Decoder
from pipeline_contracts.otlp.traces import TracesRequest
from tests.otlp.conftest import StartPipeline
from tests.otlp.requests import SPAN_ID, TRACE_ID, attribute, logs, metrics, span, traces
from tests.support.engines import skip_if_missing
from tests.support.otel_javascript import javascript_app
from tests.support.otlp_pipeline import PROTOBUF, OtlpPipeline

# A value of an attribute in JSON; the text that is stored; the same value in protobuf where that has it.
VALUES: list[tuple[str, str, dict[str, Any] | None]] = [
    (r'{"stringValue":"cut \ud83d off"}', "cut \ufffd off", {"string_value": "cut \ufffd off"}),
    (r'{"stringValue":"\ude00\ud83d\ud83d\ude00"}', "\ufffd\ufffd\U0001f600", None),
    (r'{"stringValue":"\\ud83d"}', r"\ud83d", {"string_value": r"\ud83d"}),
    ('{"intValue":9223372036854775807}', "9223372036854775807", {"int_value": 2**63 - 1}),
    ('{"intValue":9223372036854775808}', "9223372036854775808", {"double_value": 2.0**63}),
    ('{"intValue":"-9223372036854775809"}', "-9223372036854775808", {"double_value": -(2.0**63)}),
    ('{"intValue":"%s"}' % 10**30, "1e+30", {"double_value": 1e30}),
    ('{"intValue":%s}' % ("9" * 5000), "Infinity", {"double_value": float("inf")}),
    ('{"intValue":-1e400}', "-Infinity", {"double_value": float("-inf")}),
    ('{"int_value":1e3}', "1000", {"int_value": 1000}),
    ('{"doubleValue":1e400}', "Infinity", {"double_value": float("inf")}),
    ('{"doubleValue":"-1e400"}', "-Infinity", {"double_value": float("-inf")}),
    ('{"doubleValue":"NaN"}', "NaN", {"double_value": float("nan")}),
    ('{"doubleValue":123456789012345678901234567890}', "1.2345678901234568e+29", None),
    ('{"bytesValue":"/+8="}', "/+8=", {"bytes_value": b"\xff\xef"}),
    ('{"bytesValue":"_-8"}', "/+8=", {"bytes_value": b"\xff\xef"}),
    ('{"bytesValue":""}', "", {"bytes_value": b""}),
    ('{"arrayValue":{"values":[{"intValue":1e400},{"bytesValue":"_-8"}]}}', '["Infinity","/+8="]', None),
]

# Each of these spans is rejected alone. The second value is a text in the message.
REJECTED_SPANS: list[tuple[Any, str]] = [
    ("x", "Expected `object`, got `str`"),
    (span(traceId=5), "Expected `str | null`, got `int` - at `$.traceId`"),
    (span(traceId="\ud83d" * 32), "traceId must be 32 hexadecimal digits"),
    (span(startTimeUnixNano="yesterday"), "Expected `int | null`, got `str`"),
    (span(startTimeUnixNano="-1"), "Expected `int` >= 0"),
    (span(startTimeUnixNano=1.5), "Expected `int | null`, got `float`"),
    (span(startTimeUnixNano=str(2**64)), "endTimeUnixNano is before startTimeUnixNano"),
    (span(endTimeUnixNano=str(2**64)), "Expected `int` <= 9223372036854775807 - at `$.endTimeUnixNano`"),
    (span(endTimeUnixNano=2**80), "Expected `int | null`, got `float` - at `$.endTimeUnixNano`"),
    (span(kind="SPAN_KIND_SERVER"), "Expected `int | null`, got `str`"),
    (span(kind=2**31), "Expected `int` <= 2147483647"),
    (span(flags=2**32), "Expected `int` <= 4294967295"),
    (span(status=2), "Expected `object | null`, got `int`"),
    (span(attributes={"a": "b"}), "Expected `array | null`, got `object`"),
    (span(attributes=[{"key": 1}]), "Expected `str`, got `int`"),
    (span(attributes=[{"key": "a", "value": "b"}]), "Expected `object | null`, got `str`"),
    (span(attributes=[attribute("a", intValue="ten")]), "Expected `int | null`, got `str`"),
    (span(attributes=[attribute("a", intValue=1.5)]), "Expected `int | null`, got `float`"),
    (span(attributes=[attribute("a", doubleValue="much")]), "Expected `float | null`, got `str`"),
    (span(attributes=[attribute("a", stringValue=[])]), "Expected `str | null`, got `array`"),
    (span(attributes=[attribute("a", bytesValue="not base64!")]), "Invalid base64 encoded string"),
    (span(events=[7]), "Expected `object`, got `int`"),
    (span(links=["x"]), "Expected `object`, got `str`"),
]
REJECTED_LOGS: list[Any] = [{"severityNumber": "INFO"}, {"body": "x"}, {"timeUnixNano": "-1"}, None]
POINT = {"timeUnixNano": "1544712660300000000"}
REJECTED_POINTS: list[dict[str, Any]] = [
    {"histogram": {"dataPoints": [{**POINT, "count": "-1"}]}},
    {"histogram": {"dataPoints": [{**POINT, "count": str(2**63)}]}},
    {"histogram": {"dataPoints": [{**POINT, "bucketCounts": ["x"]}]}},
    {"gauge": {"dataPoints": [{**POINT, "asDouble": "much"}]}},
    # A metric's own fields are stored with each of its points.
    {"unit": 5, "sum": {"dataPoints": [{**POINT, "asInt": 1}] * 2}},
]


def _in_protobuf(values: list[dict[str, Any]]) -> bytes:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number, value in enumerate(values):
        one = spans.add(trace_id=bytes.fromhex(TRACE_ID), span_id=bytes.fromhex(SPAN_ID), name=str(number))
        attribute = one.attributes.add(key="a")
        for name, given in value.items():
            setattr(attribute.value, name, given)
    return request.SerializeToString()


async def test_odd_values_are_stored_the_same_from_json_and_protobuf(start_pipeline: StartPipeline) -> None:
    pipeline = await start_pipeline(protobuf=True)
    spans = [
        json.dumps(span(name=str(n), attributes=[{"key": "a", "value": f"@{n}@"}]))
        for n in range(len(VALUES))
    ]
    spans.append(json.dumps(span(name="\ud83d", attributes=[attribute("\udc00", stringValue="k")])))
    body = '{"resourceSpans":[{"scopeSpans":[{"spans":[' + ",".join(spans) + "]}]}]}"
    for number, (value, _, _) in enumerate(VALUES):
        body = body.replace(f'"@{number}@"', value)
    answer = await pipeline.post("traces", body.encode())
    assert (answer.status, answer.body) == (200, b"{}")
    await pipeline.consume()
    rows = {row["SpanName"]: row["SpanAttributes"] for row in await pipeline.rows("otel_traces")}
    assert rows.pop("\ufffd") == {"\ufffd": "k"}
    assert rows == {str(number): {"a": stored} for number, (_, stored, _) in enumerate(VALUES)}

    other = await start_pipeline(protobuf=True)
    twins = [(stored, twin) for _, stored, twin in VALUES if twin is not None]
    sent = _in_protobuf([twin for _, twin in twins])
    assert (await other.post("traces", sent, {"Content-Type": PROTOBUF})).status == 200
    await other.consume()
    found = {row["SpanName"]: row["SpanAttributes"] for row in await other.rows("otel_traces")}
    assert found == {str(number): {"a": stored} for number, (stored, _) in enumerate(twins)}


async def test_unstorable_record_is_rejected_alone(pipeline: OtlpPipeline) -> None:
    for bad, reason in REJECTED_SPANS:
        answer = await pipeline.post("traces", traces(span(name="first"), bad, span(name="last")))
        told = answer.document()["partialSuccess"]
        assert (answer.status, told["rejectedSpans"]) == (200, "1"), bad
        assert reason in told["errorMessage"]
    together = [one for bad, _ in REJECTED_SPANS for one in (bad, span(name="kept"), span(spanId=""))]
    answer = await pipeline.post("traces", traces(*together))
    told = answer.document()["partialSuccess"]
    assert told["rejectedSpans"] == str(2 * len(REJECTED_SPANS))
    assert told["errorMessage"].endswith(f"; and {2 * len(REJECTED_SPANS) - 5} more")
    listed = [one for bad in REJECTED_LOGS for one in (bad, {"body": {"stringValue": "kept"}})]
    told = (await pipeline.post("logs", logs(*listed))).document()["partialSuccess"]
    assert told["rejectedLogRecords"] == str(len(REJECTED_LOGS))
    good = {"name": "kept", "gauge": {"dataPoints": [{**POINT, "asInt": 1}]}}
    of_metrics = [one for n, bad in enumerate(REJECTED_POINTS) for one in ({"name": f"bad {n}", **bad}, good)]
    told = (await pipeline.post("metrics", metrics(*of_metrics))).document()["partialSuccess"]
    assert told["rejectedDataPoints"] == str(len(REJECTED_POINTS) + 1)

    await pipeline.consume()
    names = [row["SpanName"] for row in await pipeline.rows("otel_traces")]
    assert names.count("kept") == names.count("first") == names.count("last") == len(REJECTED_SPANS)
    assert len(names) == 3 * len(REJECTED_SPANS)
    assert [row["Body"] for row in await pipeline.rows("otel_logs")] == ["kept"] * len(REJECTED_LOGS)
    points = [row["MetricName"] for row in await pipeline.rows("otel_metrics_gauge")]
    assert points == ["kept"] * len(REJECTED_POINTS)
    assert await pipeline.rows("otel_metrics_histogram") == await pipeline.rows("otel_metrics_sum") == []


async def test_unstorable_resource_is_rejected_with_its_records(pipeline: OtlpPipeline) -> None:
    bad = {"attributes": [attribute("a", bytesValue="?")]}
    resources = [
        {"resource": bad, "scopeSpans": [{"spans": [span(), span()]}, {"spans": [span()]}]},
        {"scopeSpans": [{"scope": {"attributes": 5}, "spans": [span()]}, {"spans": [span(name="kept")]}]},
    ]
    answer = await pipeline.post("traces", {"resourceSpans": resources})
    assert (answer.status, answer.document()["partialSuccess"]["rejectedSpans"]) == (200, "4")
    await pipeline.consume()
    assert [row["SpanName"] for row in await pipeline.rows("otel_traces")] == ["kept"]


# Points that omit zero values, in JSON and in protobuf.
_ABSENT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "histogram": ({}, {}),
    "exponentialHistogram": ({"positive": {}}, {}),
    "summary": ({"quantileValues": [{}]}, {"quantile_values": [{}]}),
}
_TABLES = {"histogram": "histogram", "exponentialHistogram": "exponential_histogram", "summary": "summary"}


async def test_absent_members_are_zero_in_json_as_in_protobuf(start_pipeline: StartPipeline) -> None:
    pipeline = await start_pipeline(protobuf=True)
    in_json = [
        {"name": "m", kind: {"dataPoints": [{**POINT, **members}]}} for kind, (members, _) in _ABSENT.items()
    ]
    assert (await pipeline.post("metrics", metrics(*in_json))).body == b"{}"
    request = ExportMetricsServiceRequest()
    scope = request.resource_metrics.add().scope_metrics.add()
    for kind, (_, members) in _ABSENT.items():
        data = getattr(scope.metrics.add(name="m"), _TABLES[kind])
        data.data_points.add(time_unix_nano=int(POINT["timeUnixNano"]), **members)
    sent = await pipeline.post("metrics", request.SerializeToString(), {"Content-Type": PROTOBUF})
    assert (sent.status, sent.body) == (200, b"")
    await pipeline.consume()
    for table in _TABLES.values():
        from_json, from_protobuf = [
            {name: value for name, value in row.items() if name not in ("log_offset", "ReceivedAt")}
            for row in await pipeline.rows(f"otel_metrics_{table}")
        ]
        assert from_json == from_protobuf
        assert (from_json["Count"], from_json["Sum"]) == (0, 0.0)


def test_body_without_odd_values_is_stored_unchanged() -> None:
    decoder = Decoder(TracesRequest)
    body = json.dumps(
        traces(span(name="\U0001f600", attributes=[attribute("a", bytesValue="/+8=")]))
    ).encode()
    decoded = decoder.decode_sent(body)
    assert not isinstance(decoded, msgspec.DecodeError)
    assert decoded.body is body and decoded.drop_reasons == []


_CLIPPED = Path(__file__).with_name("clipped_emoji.js")


async def test_the_javascript_sdk_with_one_clipped_emoji_loses_no_span(pipeline: OtlpPipeline) -> None:
    with skip_if_missing():
        app = Path(javascript_app()[1])
    environment = {
        **os.environ,
        "OTEL_EXPORTER_OTLP_ENDPOINT": pipeline.endpoint,
        "OTEL_EXPORTER_OTLP_HEADERS": f"Authorization=Bearer%20{pipeline.key}",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "100000",
    }
    process = await asyncio.create_subprocess_exec(
        "node", "--eval", _CLIPPED.read_text(), cwd=app.parent, env=environment
    )
    assert await asyncio.wait_for(process.wait(), 150) == 0
    await pipeline.consume()
    names = {row["SpanName"]: row["SpanAttributes"]["text"] for row in await pipeline.rows("otel_traces")}
    assert len(names) == 500
    assert names["span 250"] == "great \ufffd"
