"""Consumers decode every body that the edge accepts, at any depth of their call stack."""

import sys
from collections.abc import Callable
from typing import TypeVar

import pytest

from consumers.chunk import Chunk
from consumers.transforms.heartbeats_topic import HeartbeatsTopic
from consumers.transforms.otlp.topic import traces_topic
from consumers.transforms.telemetry_topic import TelemetryTopic
from ingest_edge.decoders.monitors import decode_heartbeat
from ingest_edge.decoders.telemetry import decode_batch
from ingest_edge.limits import Limits
from pipeline_contracts.errors import InvalidInput
from pipeline_contracts.monitors import MonitorMeta, encode_monitor_meta
from pipeline_contracts.otlp.records import OtlpMeta, encode_otlp_meta
from pipeline_contracts.records import LogRecord, encode_meta
from pipeline_contracts.settings import Settings
from tests.otlp.requests import SPAN_ID, TRACE_ID
from tests.support.otlp_pipeline import validate_json_body
from tests.support.telemetry_records import meta

T = TypeVar("T")

_LIMITS = Limits.from_settings(Settings())
_EXTRA_FRAMES = 150
"""Additional frames below the consumer's code, compared with the edge's."""


def _batch(levels: int) -> bytes:
    inner = b'{"a":' * levels + b"1" + b"}" * levels
    return b'{"batch_id":"b","events":[{"type":"log","attributes":%b}]}' % inner


def _signal(levels: int) -> bytes:
    inner = b"[" * levels + b"]" * levels
    return b'{"run_id":"0191d2e0-0000-7000-8000-000000000001","signal":"success","x":%b}' % inner


def _traces(levels: int) -> bytes:
    inner = b'{"arrayValue":{"values":[' * levels + b"]}}" * levels
    return (
        b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"%b","spanId":"%b","attributes":[{"key":"a","value":%b}]}'
        b"]}]}]}" % (TRACE_ID.encode(), SPAN_ID.encode(), inner)
    )


def _deepest(body: Callable[[int], bytes], decode: Callable[[bytes], object]) -> bytes:
    """Return the deepest body that the edge accepts."""
    low, high = 1, 2000
    while low < high:
        middle = (low + high + 1) // 2
        try:
            decode(body(middle))
            low = middle
        except InvalidInput:
            high = middle - 1
    return body(low)


def _call_below(frames: int, function: Callable[[], T]) -> T:
    return function() if frames == 0 else _call_below(frames - 1, function)


async def _rows(transform: TelemetryTopic, chunk: Chunk) -> tuple[list[object], list[object]]:
    class NoReceipts:
        async def query(self, *_: object) -> object:
            class Result:
                rows: list[object] = []

            return Result()

    result = _call_below(_EXTRA_FRAMES, lambda: _run(transform.make_rows(chunk, NoReceipts())))  # type: ignore[arg-type]
    return list(result.tables.items()), list(result.dead)


def _run(coroutine):  # type: ignore[no-untyped-def]
    """Run a coroutine that awaits only `sleep(0)` on the caller's stack."""
    while True:
        try:
            coroutine.send(None)
        except StopIteration as end:
            return end.value


@pytest.mark.parametrize("kind", ["batch", "traces", "signal"])
async def test_the_deepest_body_that_the_edge_accepts_becomes_rows(kind: str) -> None:
    limit = sys.getrecursionlimit()
    if kind == "batch":
        body = _deepest(_batch, lambda body: decode_batch(body, _LIMITS))
        head, transform = encode_meta(meta("env_1", "b", 1)), TelemetryTopic()
    elif kind == "traces":
        body = _deepest(_traces, lambda body: validate_json_body("traces", body, _LIMITS))
        head, transform = encode_otlp_meta(OtlpMeta("a", "p", "e", 1, 1)), traces_topic()
    else:
        body = _deepest(_signal, decode_heartbeat)
        head = encode_monitor_meta(MonitorMeta("heartbeat", 1, "e", 1))
        transform = HeartbeatsTopic(None)  # type: ignore[arg-type]
    record = LogRecord(0, b"r", head, body)
    chunk = Chunk("log/0", 0, 1, [record])
    tables, dead = await _rows(transform, chunk)  # type: ignore[arg-type]
    assert dead == []
    assert sum(rows.rows for name, listed in tables for rows in listed if "receipts" not in name) == (  # type: ignore[union-attr,attr-defined]
        kind != "signal"
    )
    assert sys.getrecursionlimit() == limit
