"""The accelerator accepts real traffic, and no body that Python's decoders refuse, repair or count differently.

`python -m loadtests.fuzz_accelerator` compares for longer.
"""

import base64
import gzip
import importlib
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ingest_edge import accelerator as accelerator_module
from ingest_edge.accelerator import INTERFACE, Accelerator, find_accelerator
from loadtests.bench.otlp_payloads import otlp_bodies
from loadtests.bench.payloads import make_bodies
from pipeline_contracts import topics
from pipeline_contracts.otlp.records import decode_otlp_meta
from pipeline_contracts.records import decode_meta
from tests.ingest_edge.conftest import Answer, RunningEdge, StartEdge
from tests.support.accelerator import build_accelerator, load_built
from tests.support.accelerator_samples.compare import (
    DEFAULT_LIMITS,
    KINDS,
    NARROW_LIMITS,
    Comparison,
    make_comparison,
)
from tests.support.accelerator_samples.mutations import ODD_VALUES, mutate
from tests.support.accelerator_samples.valid import make_body, write_json
from tests.support.engines import skip_if_missing

JSON_KINDS = [kind for kind in KINDS if not kind.endswith("protobuf")]
PROTOBUF_KINDS = [kind for kind in KINDS if kind.endswith("protobuf")]


@pytest.fixture(scope="module")
def accelerator() -> Iterator[Accelerator]:
    """The accelerator of this tree, built once by cargo."""
    with skip_if_missing():
        built = build_accelerator()
    module = load_built(built)
    yield module
    assert module.count_panics() == 0


@pytest.fixture
def comparison(accelerator: Accelerator) -> Callable[..., Comparison]:
    return lambda kind, limits=DEFAULT_LIMITS: make_comparison(accelerator, kind, limits)


def batch(event: str, batch_id: str = '"b-1"') -> bytes:
    return f'{{"batch_id":{batch_id},"events":[{event}]}}'.encode()


def traces(value: str, **members: Any) -> bytes:
    """A request with one span whose attribute has this value."""
    span = {"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331", **members}
    span = {name: member for name, member in span.items() if member is not ...}
    text = json.dumps(span)[:-1] + f', "attributes": [{{"key": "a", "value": {value}}}]}}'
    return f'{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{text}]}}]}}]}}'.encode()


def test_accepts_the_traffic_of_the_benchmark(comparison: Callable[..., Comparison]) -> None:
    for kind in KINDS:
        signal, _, coding = kind.partition(" ")
        bodies = otlp_bodies(signal, coding, 8) if coding else [*make_bodies(8, 100), *make_bodies(8, 1)]
        assert all(comparison(kind).compare(body) for body in bodies), kind


@pytest.mark.parametrize("kind", KINDS)
def test_accepts_valid_bodies_of_all_shapes(comparison: Callable[..., Comparison], kind: str) -> None:
    """UTF-8, escapes, white space, time offsets, nulls, unknown members, and members in any order."""
    chance = random.Random(1)
    accepted = [comparison(kind).compare(make_body(chance, kind)) for _ in range(300)]
    # A few values are nested more deeply than the accelerator supports.
    assert sum(accepted) >= 295


ACCEPTED_BATCHES = {
    "UTF-8": batch('{"type":"log","name":"Zürich 北京 🚀"}'),
    "escapes": batch('{"type":"log","name":"\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\\u0000"}'),
    "an ID with escapes": batch('{"type":"log"}', '"2026\\/11\\/\\ud83d\\ude80\\u00e9\\"\\\\\\t"'),
    "an ID of 100 characters of four bytes": batch('{"type":"log"}', f'"{"🚀" * 100}"'),
    "an offset": batch('{"type":"log","timestamp":"2026-01-31T12:00:00.123+05:30"}'),
    "a leap day": batch('{"type":"log","timestamp":"2024-02-29T23:59:59Z"}'),
    "nine digits of a second": batch('{"type":"log","timestamp":"2026-01-31 12:00:00.123456789z"}'),
    "nulls": batch('{"type":"log","severity":null,"timestamp":null,"status_code":null,"payload":null}'),
    "unknown members": b'{"sent":1e3,"batch_id":"b","x":[{}],"events":[{"q":[1,{"b":null}],"type":"job"}],"y":[]}',
    "white space": b' {\n\t"batch_id" : "b" ,\r\n "events" : [ { "type" : "log" } ] } \n',
    "64-bit integers": batch(f'{{"type":"log","status_code":{-(2**63)},"affected_users":{2**63 - 1}}}'),
    "numbers": batch('{"type":"log","duration_ms":-1.5E-7,"payload":{"a":[0,-0,1e5,0.1,-12]}}'),
    "a repeated unknown member": batch('{"type":"log","x":1,"x":2}'),
}
LEFT_TO_PYTHON = {
    "no event": b'{"batch_id":"b","events":[]}',
    "no ID": b'{"events":[{"type":"log"}]}',
    "an empty ID": batch('{"type":"log"}', '""'),
    "an ID of 101 characters": batch('{"type":"log"}', f'"{"é" * 101}"'),
    "a null ID": batch('{"type":"log"}', "null"),
    "no type": batch('{"name":"x"}'),
    "an unknown type": batch('{"type":"nope"}'),
    "a repeated member": batch('{"type":"log","type":"job"}'),
    "repeated events": b'{"batch_id":"b","events":[{"type":"log"}],"events":[]}',
    "an escaped name of a member": batch('{"t\\u0079pe":"log"}'),
    "a lone surrogate": batch('{"type":"log","name":"\\ud83d"}'),
    "a lone surrogate that is ignored": batch('{"type":"log","x":{"y":"\\ude00"}}'),
    "a leap second": batch('{"type":"log","timestamp":"2026-06-30T23:59:60Z"}'),
    "a time without a zone": batch('{"type":"log","timestamp":"2026-01-31T12:00:00"}'),
    "a day that does not exist": batch('{"type":"log","timestamp":"2023-02-29T12:00:00Z"}'),
    "an integer with a fraction": batch('{"type":"log","status_code":1.0}'),
    "an integer over 64 bits": batch(f'{{"type":"log","status_code":{2**63}}}'),
    "an integer as a string": batch('{"type":"log","status_code":"1"}'),
    "a number out of range": batch('{"type":"log","duration_ms":1e400}'),
    "an array for an object": batch('{"type":"log","attributes":[]}'),
    "invalid UTF-8": batch('{"type":"log","name":"x"}').replace(b"x", b"\xff"),
    "an encoded surrogate": batch('{"type":"log","name":"x"}').replace(b"x", b"\xed\xa0\x80"),
    "a control character": batch('{"type":"log","name":"\x01"}'),
    "an invalid escape": batch('{"type":"log","name":"\\x"}'),
    "a trailing comma": batch('{"type":"log",}'),
    "text after the end": batch('{"type":"log"}') + b"x",
    "a byte order mark": b"\xef\xbb\xbf" + batch('{"type":"log"}'),
    "an empty body": b"",
    "deeper than it supports": batch(f'{{"type":"log","payload":{{"a":{"[" * 80}{"]" * 80}}}}}'),
}


@pytest.mark.parametrize("case", ACCEPTED_BATCHES)
def test_accepts_a_batch_with(comparison: Callable[..., Comparison], case: str) -> None:
    assert comparison("ingest").compare(ACCEPTED_BATCHES[case])


@pytest.mark.parametrize("case", LEFT_TO_PYTHON)
def test_leaves_to_python_a_batch_with(comparison: Callable[..., Comparison], case: str) -> None:
    assert not comparison("ingest").compare(LEFT_TO_PYTHON[case])


@pytest.mark.parametrize(
    ("body", "accepts"),
    [
        (traces('{"stringValue":"é\\n"}'), True),
        (traces('{"intValue":"-9223372036854775808"}'), True),
        (traces('{"intValue":5}'), True),
        (traces('{"doubleValue":"NaN"}'), True),
        (traces('{"doubleValue":"-Infinity"}'), True),
        (
            traces('{"arrayValue":{"values":[{"boolValue":true},{"kvlistValue":{"values":[{"key":"k"}]}}]}}'),
            True,
        ),
        (traces('{"bytesValue":"YWI="}'), True),
        (traces("{}"), True),
        (traces("null", droppedAttributesCount=0, somethingNew={"a": [1]}), True),
        (traces("null", startTimeUnixNano="1", endTimeUnixNano=None), False),
        (
            traces(
                "null", startTimeUnixNano=5, endTimeUnixNano="5", traceId="0AF7651916CD43DD8448EB211C80319C"
            ),
            True,
        ),
        (traces("null", spanId=...), False),
        (traces("null", spanId="0" * 16), False),
        (traces("null", traceId="0af7651916cd43dd8448eb211c80319 "), False),
        (traces("null", start_time_unix_nano=1), False),
        (traces('{"intValue":"9223372036854775808"}'), False),
        (traces('{"intValue":"1e3"}'), False),
        (traces('{"doubleValue":1e400}'), False),
        (traces('{"bytesValue":"YWI"}'), False),
        (traces('{"unknownValue":1}'), False),
        (traces('{"stringValue":"\\ud83d"}'), False),
        (traces('{"arrayValue":{"values":[null]}}'), False),
        (b"{}", True),
        (b'{"resourceSpans":null}', True),
        (b'{"resourceSpans":[null]}', False),
        (b"[]", False),
    ],
)
def test_odd_spans(comparison: Callable[..., Comparison], body: bytes, accepts: bool) -> None:
    assert comparison("traces json").compare(body) is accepts


@pytest.mark.parametrize(
    ("point", "accepts"),
    [
        ({"timeUnixNano": 5, "asInt": 0}, True),
        ({"timeUnixNano": 5, "asDouble": 0.0}, True),
        ({"timeUnixNano": 5, "flags": 1}, True),
        ({"timeUnixNano": 5, "flags": 2}, False),
        ({"timeUnixNano": 5}, False),
        ({"timeUnixNano": 0, "asInt": 1}, False),
        ({"asInt": 1}, False),
    ],
)
def test_data_points_need_a_time_and_a_value(
    comparison: Callable[..., Comparison], point: dict[str, Any], accepts: bool
) -> None:
    for kind in ("gauge", "sum"):
        request = {"resourceMetrics": [{"scopeMetrics": [{"metrics": [{kind: {"dataPoints": [point]}}]}]}]}
        assert comparison("metrics json").compare(json.dumps(request).encode()) is accepts
        message = ParseDict(request, ExportMetricsServiceRequest()).SerializeToString()
        assert comparison("metrics protobuf").compare(message) is accepts
    for kind in ("histogram", "exponentialHistogram", "summary"):
        timed = {"timeUnixNano": point.get("timeUnixNano")}
        request = {"resourceMetrics": [{"scopeMetrics": [{"metrics": [{kind: {"dataPoints": [timed]}}]}]}]}
        assert comparison("metrics json").compare(json.dumps(request).encode()) is bool(timed["timeUnixNano"])
        message = ParseDict(request, ExportMetricsServiceRequest()).SerializeToString()
        assert comparison("metrics protobuf").compare(message) is bool(timed["timeUnixNano"])


@pytest.mark.parametrize(
    ("members", "accepts"),
    [
        ({}, True),
        ({"endTimeUnixNano": 5}, True),
        ({"startTimeUnixNano": 5, "endTimeUnixNano": 4}, False),
        ({"startTimeUnixNano": 5}, False),
        ({"traceId": base64.b64encode(bytes(16)).decode()}, False),
        ({"traceId": base64.b64encode(b"short").decode()}, False),
        ({"spanId": base64.b64encode(bytes(8)).decode()}, False),
        ({"spanId": ""}, False),
    ],
)
def test_spans_in_protobuf_need_ids_and_an_end_after_the_start(
    comparison: Callable[..., Comparison], members: dict[str, Any], accepts: bool
) -> None:
    ids = {"traceId": base64.b64encode(b"t" * 16).decode(), "spanId": base64.b64encode(b"s" * 8).decode()}
    request = {"resourceSpans": [{"scopeSpans": [{"spans": [{**ids, **members}]}]}]}
    message = ParseDict(request, ExportTraceServiceRequest()).SerializeToString()
    assert comparison("traces protobuf").compare(message) is accepts


@pytest.mark.parametrize("kind", JSON_KINDS)
def test_agrees_on_every_member_with_odd_values(comparison: Callable[..., Comparison], kind: str) -> None:
    chance = random.Random(2)
    compare = comparison(kind).compare
    checked: set[tuple[str, ...]] = set()
    for _ in range(60):
        document = json.loads(make_body(chance, kind))
        for path, holder, key in list(_places(document, ())):
            if path in checked:
                continue
            checked.add(path)
            kept = holder[key]
            for value in ODD_VALUES:
                holder[key] = value
                compare(write_json(chance, document))
            holder[key] = kept
    assert len(checked) > 15


def _places(node: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yield the path of each member and item, without indexes, and its location. Values within values are omitted."""
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, child in children:
        below = (*path, key if isinstance(key, str) else "[]")
        if len(below) < 20:
            yield below, node, key
            yield from _places(child, below)


@pytest.mark.parametrize("kind", PROTOBUF_KINDS)
def test_agrees_on_strings_that_are_not_utf8(comparison: Callable[..., Comparison], kind: str) -> None:
    chance = random.Random(3)
    compare = comparison(kind).compare
    checked = 0
    for _ in range(300):
        body = make_body(chance, kind)
        # First bytes of characters that are not ASCII, and bytes of IDs, which may have any value.
        for at in [index for index, byte in enumerate(body) if byte >= 0xC0]:
            compare(body[:at] + b"\xff" + body[at + 1 :])
            checked += 1
    assert checked > 1000


@pytest.mark.parametrize("kind", KINDS)
def test_agrees_on_mutated_bodies(comparison: Callable[..., Comparison], kind: str) -> None:
    chance = random.Random(4)
    wide, narrow = comparison(kind), comparison(kind, NARROW_LIMITS)
    accepted = 0
    for _ in range(60):
        body, other = make_body(chance, kind), make_body(chance, kind)
        for _ in range(20):
            accepted += chance.choice((wide, wide, narrow)).compare(mutate(chance, kind, body, other))
    # Mutations that leave a body valid are validated too, not only those that break it.
    assert accepted > 100


@pytest.mark.parametrize("kind", PROTOBUF_KINDS)
@pytest.mark.parametrize(
    ("body", "accepts"),
    [
        (b"", True),
        (b"\x0a\x00", True),
        (b"\xfa\x01\x03abc", True),  # an unknown field
        (b"\x8a\x80\x80\x80\x00\x00", True),  # a tag of five bytes
        (b"\x8a\x80\x80\x80\x80\x00\x00", False),
        (b"\x0a\x80\x80\x80\x80\x00", True),  # a length of five bytes
        (b"\x0a\x80\x80\x80\x80\x80\x00", False),
        (b"\x0a\x01", False),
        (b"\x02\x00", False),  # field 0
        (b"\x0b\x0c", False),  # a group
        (b"\x08\x00", False),  # a varint where a message belongs
        (b"\xf8\x01" + b"\xff" * 9 + b"\x01", True),  # a number of 64 bits
        (b"\xf8\x01" + b"\xff" * 9 + b"\x02", False),
    ],
)
def test_bytes_of_protobuf(
    comparison: Callable[..., Comparison], kind: str, body: bytes, accepts: bool
) -> None:
    assert comparison(kind).compare(body) is accepts


def test_limits_of_a_batch(comparison: Callable[..., Comparison]) -> None:
    event = '{"type":"log","name":"' + "x" * 100 + '"}'
    size = len(event)
    for events in (1, 2, 3):
        body = batch(",".join([event] * events))
        for event_bytes in (size - 1, size, size + 1):
            for batch_events in (1, 2, 3):
                limits = replace(DEFAULT_LIMITS, event_bytes=event_bytes, batch_events=batch_events)
                fits = size <= event_bytes and events <= batch_events
                assert comparison("ingest", limits).compare(body) is fits


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "ingest"])
def test_limits_of_otlp_requests(comparison: Callable[..., Comparison], kind: str) -> None:
    """Sizes of records and of rows, from limits that refuse the body to limits that never matter."""
    signal, _, coding = kind.partition(" ")
    for body in otlp_bodies(signal, coding, 2):
        accepted = []
        for power in range(14, 30):
            limits = replace(DEFAULT_LIMITS, event_bytes=2 ** (power - 8), expanded_bytes=2**power)
            accepted.append(comparison(kind, limits).compare(body))
        assert accepted == sorted(accepted)
        assert accepted[0] is False and accepted[-1] is True


def test_other_types_and_limits_are_not_validated(accelerator: Accelerator) -> None:
    body = batch('{"type":"log"}')
    assert accelerator.validate_batch(body, 1000, 10) == ("b-1", 1)
    others: list[Any] = [bytearray(body), memoryview(body), body.decode(), None]
    assert all(accelerator.validate_batch(other, 1000, 10) is None for other in others)
    assert accelerator.validate_batch(body, 2**70, 10) is None
    assert accelerator.validate_traces_json(traces("{}"), 1) == (1, 96, 0, 0)
    assert accelerator.validate_traces_json(traces("{}"), 2**70) is None


# ---------------------------------------------------------------------------------------------------- at the edge


async def test_edge_stores_the_same_with_and_without(start_edge: StartEdge, accelerator: Accelerator) -> None:
    bodies = [*ACCEPTED_BATCHES.values(), *LEFT_TO_PYTHON.values()]
    received: list[list[tuple[int, list[str]]]] = []
    stored = []
    for module in (accelerator, None):
        edge = await start_edge(accelerator=module)
        answers = [await edge.post(body) for body in bodies]
        # Compressed bodies take the usual path, others the fast one.
        packed = {"Content-Encoding": "gzip"}
        answers += [await edge.post(gzip.compress(body), packed) for body in bodies]
        received.append([(answer.status, answer.fields()) for answer in answers])
        records = await edge.appended()
        stored.append([(record.key, record.value, decode_meta(record.meta).batch_id) for record in records])
    assert received[0] == received[1]
    assert stored[0] == stored[1]
    assert len(stored[0]) >= 2 * len(ACCEPTED_BATCHES)


async def test_both_paths_of_the_edge_use_it(start_edge: StartEdge) -> None:
    validated = []

    def validate_batch(body: bytes, event_bytes: int, events: int) -> tuple[str, int]:
        validated.append((body, event_bytes, events))
        return "accepted", 7

    module: Any = SimpleNamespace(validate_batch=validate_batch)
    edge = await start_edge(accelerator=module, event_bytes=1000, batch_events=10)
    fast = await edge.post(b"not JSON")
    usual = await edge.post(gzip.compress(b"not JSON"), {"Content-Encoding": "gzip"})
    assert validated == [(b"not JSON", 1000, 10)] * 2
    for answer in (fast, usual):
        assert (answer.status, answer.document()["data"]["received"]) == (202, 7)


@pytest.mark.parametrize("signal", ["traces", "logs", "metrics"])
async def test_edge_counts_the_same_records(
    start_edge: StartEdge, accelerator: Accelerator, signal: str
) -> None:
    topic = {"traces": topics.TRACES, "logs": topics.LOGS, "metrics": topics.METRICS}[signal]
    for module in (accelerator, None):
        edge = await start_edge(accelerator=module, protobuf=True)
        for coding, content_type in (("json", "application/json"), ("protobuf", "application/x-protobuf")):
            body = otlp_bodies(signal, coding, 1, seed=5)[0]
            answer = await _export(edge, signal, body, content_type)
            assert (answer.status, answer.body) == (200, b"{}" if coding == "json" else b"")
        records = await edge.appended(topic)
        metas = [decode_otlp_meta(record.meta) for record in records]
        assert [(meta.records, meta.coding, meta.rejected) for meta in metas] == [
            (100, "json", ()),
            (100, "protobuf", ()),
        ]


async def test_python_validates_requests_with_rejected_records(
    start_edge: StartEdge, accelerator: Accelerator
) -> None:
    edge = await start_edge(accelerator=accelerator)
    answer = await _export(edge, "traces", traces("null", spanId="0" * 16), "application/json")
    assert answer.document()["partialSuccess"]["rejectedSpans"] == "1"


async def _export(edge: RunningEdge, signal: str, body: bytes, content_type: str) -> Answer:
    headers = {"Content-Type": content_type, "Authorization": f"Bearer {edge.key}"}
    return await edge.request("POST", f"/api/v1/otlp/v1/{signal}", data=body, headers=headers)


# -------------------------------------------------------------------------------------------------------- choice


def test_setting_and_installed_module_choose(monkeypatch: pytest.MonkeyPatch) -> None:
    installed: Any = SimpleNamespace(INTERFACE=INTERFACE, VERSION="1.2.3")
    monkeypatch.setattr(importlib, "import_module", lambda _name: installed)
    assert find_accelerator("auto") == (installed, "the accelerator 1.2.3")
    assert find_accelerator("off") == (None, "Python (PHAROS_ACCELERATOR is off)")
    installed.INTERFACE = INTERFACE + 1
    module, description = find_accelerator("auto")
    assert module is None
    assert f"has interface {INTERFACE + 1} instead of {INTERFACE}" in description
    # The folder of a removed package.
    monkeypatch.setattr(importlib, "import_module", lambda _name: SimpleNamespace())
    module, description = find_accelerator("auto")
    assert module is None
    assert "has interface none" in description


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ModuleNotFoundError("No module", name=accelerator_module.MODULE), "no accelerator is installed"),
        (
            ModuleNotFoundError("No module named 'other'", name="other"),
            "cannot be loaded: No module named 'other'",
        ),
        (ImportError("wrong ELF class"), "cannot be loaded: wrong ELF class"),
        (SystemError("initialization failed"), "cannot be loaded: initialization failed"),
    ],
)
def test_python_validates_without_a_module_that_loads(
    monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    def fail(_name: str) -> None:
        raise error

    monkeypatch.setattr(accelerator_module.importlib, "import_module", fail)
    module, description = find_accelerator("auto")
    assert module is None
    assert reason in description
