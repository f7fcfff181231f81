"""Valid OTLP requests in all forms that the protocol allows, and every field of spans."""

import gzip
import json
import zlib
from datetime import UTC, datetime
from typing import Any

import pytest

from ingest_edge.intake import now_ms
from pipeline_contracts import topics
from pipeline_contracts.times import to_epoch_ms
from tests.otlp.conftest import StartPipeline
from tests.otlp.requests import SPAN_ID, TRACE_ID, attribute, logs, nested, snake, span, traces
from tests.support.otlp_pipeline import JSON, PROTOBUF, OtlpPipeline

EMPTY = [
    {},
    {"resourceSpans": []},
    {"resourceSpans": None},
    {"resourceSpans": [{}]},
    {"resourceSpans": [{"scopeSpans": [{"spans": []}]}]},
    {"tomorrow": [1, 2, 3]},
]


@pytest.mark.parametrize("body", EMPTY, ids=json.dumps)
async def test_empty_request_is_a_full_success(pipeline: OtlpPipeline, body: Any) -> None:
    answer = await pipeline.post("traces", body)
    assert (answer.status, answer.content_type, answer.body) == (200, JSON, b"{}")
    assert await pipeline.appended(topics.TRACES) == 0


async def test_empty_message_is_a_full_success(start_pipeline: StartPipeline) -> None:
    pipeline = await start_pipeline(protobuf=True)
    for signal in ("traces", "logs", "metrics"):
        answer = await pipeline.post(signal, b"", {"Content-Type": PROTOBUF})
        assert (answer.status, answer.content_type, answer.body) == (200, PROTOBUF, b"")


async def test_the_key_of_a_deployed_application_may_send_protobuf(start_pipeline: StartPipeline) -> None:
    """This holds even if the operator has not allowed protobuf for other keys: first on the usual path, then on the
    fast path."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

    pipeline = await start_pipeline(is_application_key=True)
    span_of = Span(trace_id=bytes.fromhex(TRACE_ID), span_id=bytes.fromhex(SPAN_ID), name="deployed")
    body = ExportTraceServiceRequest(
        resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=[span_of])])]
    ).SerializeToString()
    for _ in range(3):
        answer = await pipeline.post("traces", body, {"Content-Type": PROTOBUF})
        assert (answer.status, answer.content_type, answer.body) == (200, PROTOBUF, b"")
    assert (await pipeline.post("traces", b"\xff\xff", {"Content-Type": PROTOBUF})).status == 400
    assert (await pipeline.post("traces", {})).content_type == JSON
    await pipeline.consume()
    assert [row["SpanName"] for row in await pipeline.rows("otel_traces")] == ["deployed"] * 3
    other = await start_pipeline()
    assert (await other.post("traces", body, {"Content-Type": PROTOBUF})).status == 415


async def _chunked(body: bytes) -> Any:
    for begin in range(0, len(body), 50):
        yield body[begin : begin + 50]


async def test_encodings_and_chunks(pipeline: OtlpPipeline) -> None:
    """gzip, deflate, zstd; a body in chunks; parameters of the content type."""
    from backports import zstd

    body = json.dumps(traces(span())).encode()
    for coding, data in (
        ("gzip", gzip.compress(body)),
        ("deflate", zlib.compress(body)),
        ("zstd", zstd.compress(body)),
        ("identity", body),
    ):
        assert (await pipeline.post("traces", data, {"Content-Encoding": coding})).status == 200
        chunked = await pipeline.post("traces", _chunked(data), {"Content-Encoding": coding})
        assert (chunked.status, chunked.body) == (200, b"{}")
    assert (
        await pipeline.post("traces", body, {"Content-Type": "Application/JSON; charset=utf-8"})
    ).status == 200
    await pipeline.consume()
    assert len(await pipeline.rows("otel_traces")) == 9


WHOLE_SPAN = span(
    parentSpanId="eee19b7ec3c1b173",
    traceState="a=b",
    flags=257,
    kind=3,
    status={"code": 2, "message": "it broke"},
    attributes=[
        attribute("text", stringValue="x_y"),
        attribute("count", intValue="3"),
        attribute("list", arrayValue={"values": [{"doubleValue": 1.5}]}),
        attribute("map", kvlistValue={"values": [attribute("inner_key", boolValue=True)]}),
    ],
    events=[
        {
            "timeUnixNano": "1544712660500000001",
            "name": "exception",
            "attributes": [attribute("exception.type", stringValue="KeyError")],
        },
        {"timeUnixNano": "1544712660600000000", "name": "done"},
    ],
    links=[
        {
            "traceId": TRACE_ID.upper(),
            "spanId": SPAN_ID.upper(),
            "traceState": "c=d",
            "attributes": [attribute("why", stringValue="retry")],
        }
    ],
)
WHOLE_TRACE = {
    "resourceSpans": [
        {
            "resource": {"attributes": [attribute("service.name", stringValue="shop")]},
            "schemaUrl": "https://example.com/resource",
            "scopeSpans": [
                {
                    "scope": {
                        "name": "library",
                        "version": "2",
                        "attributes": [attribute("scope_key", stringValue="v")],
                    },
                    "schemaUrl": "https://example.com/scope",
                    "spans": [WHOLE_SPAN],
                }
            ],
        }
    ]
}


def _partlysnake() -> Any:
    """Only in the values of attributes, the deepest level."""
    part = json.loads(json.dumps(WHOLE_TRACE))
    of_span = part["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    of_span["attributes"] = snake(of_span["attributes"])
    return part


@pytest.mark.parametrize("style", ["camel", "snake", "partly"])
async def test_every_field_of_a_span(pipeline: OtlpPipeline, style: str) -> None:
    """The same row from lowerCamelCase, from snake_case and from both mixed."""
    body = {"camel": WHOLE_TRACE, "snake": snake(WHOLE_TRACE), "partly": _partlysnake()}[style]
    answer = await pipeline.post("traces", body)
    assert (answer.status, answer.body) == (200, b"{}")
    await pipeline.consume()
    (row,) = await pipeline.rows("otel_traces")
    moment = datetime(2018, 12, 13, 14, 51, 0, 500000, tzinfo=UTC)
    for name, value in {
        "ParentSpanId": "eee19b7ec3c1b173",
        "TraceState": "a=b",
        "Flags": 257,
        "SpanKind": "Client",
        "StatusCode": "Error",
        "StatusMessage": "it broke",
        "ServiceName": "shop",
        "ResourceSchemaUrl": "https://example.com/resource",
        "ScopeName": "library",
        "ScopeVersion": "2",
        "ScopeAttributes": {"scope_key": "v"},
        "ScopeSchemaUrl": "https://example.com/scope",
        "SpanAttributes": {"text": "x_y", "count": "3", "list": "[1.5]", "map": '{"inner_key":true}'},
        "Events.Timestamp": [moment, moment.replace(microsecond=600000)],
        "Events.Name": ["exception", "done"],
        "Events.Attributes": [{"exception.type": "KeyError"}, {}],
        "Links.TraceId": [TRACE_ID],
        "Links.SpanId": [SPAN_ID],
        "Links.TraceState": ["c=d"],
        "Links.Attributes": [{"why": "retry"}],
    }.items():
        assert row[name] == value, name
    exact = await pipeline.store.query(
        "SELECT toUnixTimestamp64Nano(Events.Timestamp[1]) FROM pharos.otel_traces WHERE EnvironmentId = {e:String}",
        {"e": pipeline.environment_id},
    )
    assert exact.rows[0][0] == 1544712660500000001


async def test_times_of_logs(pipeline: OtlpPipeline) -> None:
    """The stored time is that of the event, else of its observation, else of its receipt. A wrong clock never makes a
    chunk fail."""
    sent = [
        {"timeUnixNano": "1544712660300000000", "observedTimeUnixNano": "1544712661000000000"},
        {"observedTimeUnixNano": "1544712661000000000"},
        {},
        {"timeUnixNano": "5"},
        {"timeUnixNano": str(2**64 - 1)},
        {"timeUnixNano": "9" * 30},
    ]
    body = [{**record, "body": {"stringValue": str(n)}} for n, record in enumerate(sent)]
    begun_ms = now_ms()
    assert (await pipeline.post("logs", logs(*body))).body == b"{}"
    ended_ms = now_ms()
    await pipeline.consume()
    rows = await pipeline.rows("otel_logs", "Body")
    received = rows[0]["ReceivedAt"]
    assert [row["Timestamp"] for row in rows] == [
        datetime(2018, 12, 13, 14, 51, 0, 300000, tzinfo=UTC),
        datetime(2018, 12, 13, 14, 51, 1, tzinfo=UTC),
        received,
        datetime(1970, 1, 1, tzinfo=UTC),
        received,
        received,
    ]
    assert begun_ms <= to_epoch_ms(received) <= ended_ms


async def test_values_may_nest_as_deep_as_the_limit(pipeline: OtlpPipeline) -> None:
    deep = span(attributes=[{"key": "deep", "value": nested(15)}])
    assert (await pipeline.post("traces", traces(deep))).status == 200
    await pipeline.consume()
    (row,) = await pipeline.rows("otel_traces")
    assert row["SpanAttributes"] == {"deep": "[" * 15 + '"x"' + "]" * 15}


async def test_a_chunk_larger_than_a_block_is_inserted_in_parts(pipeline: OtlpPipeline) -> None:
    """Many records that each have a large resource together exceed the size of one insert."""
    resource = {"attributes": [attribute("large", stringValue="x" * 20_000)]}
    for _ in range(5):
        body = {
            "resourceLogs": [
                {"resource": resource, "scopeLogs": [{"logRecords": [{"eventName": "e"}] * 1500}]}
            ]
        }
        assert (await pipeline.post("logs", body)).status == 200
    await pipeline.consume()
    count = await pipeline.store.query(
        "SELECT count() FROM pharos.otel_logs WHERE EnvironmentId = {e:String}",
        {"e": pipeline.environment_id},
    )
    assert count.rows[0][0] == 7500


async def test_value_of_an_unknown_kind_is_empty(pipeline: OtlpPipeline) -> None:
    """Unknown members are ignored, also in values."""
    attributes = [
        {"key": "new", "value": {"dateValue": "2030-01-01", "x_y": {"z": []}}},
        {"key": "both", "value": {"stringValue": "old", "dateValue": 5}, "tomorrow": 1},
    ]
    assert (await pipeline.post("traces", traces(span(attributes=attributes)))).body == b"{}"
    await pipeline.consume()
    (row,) = await pipeline.rows("otel_traces")
    assert row["SpanAttributes"] == {"new": "", "both": "old"}


async def test_time_over_64_bits_stays_an_integer_next_to_a_value_of_unknown_kind(
    pipeline: OtlpPipeline,
) -> None:
    """The body is encoded again without the unknown member, and is otherwise unchanged."""
    value = {"stringValue": "x", "dateValue": 5}
    record = {"timeUnixNano": 2**64 + 5, "body": value}
    assert (await pipeline.post("logs", logs(record))).body == b"{}"
    await pipeline.consume()
    (row,) = await pipeline.rows("otel_logs", "Body")
    assert row["Timestamp"] == row["ReceivedAt"]
