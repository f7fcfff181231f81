"""Mutated envelopes: the edge refuses each one with a reason, or converts it to records that every consumer can
read."""

import json
import random
from typing import Any

import msgspec

from consumers.transforms.otlp.logs import log_rows
from consumers.transforms.otlp.shared_columns import RecordOrigin
from consumers.transforms.otlp.traces import trace_rows
from consumers.transforms.telemetry_rows import telemetry_rows
from ingest_edge.decoders.telemetry import decode_batch
from ingest_edge.sentry.convert import Record, convert_envelope
from ingest_edge.sentry.envelope import read_envelope
from pipeline_contracts import topics
from pipeline_contracts.errors import Problem
from pipeline_contracts.otlp.logs import LogsRequest
from pipeline_contracts.otlp.records import OtlpMeta
from pipeline_contracts.otlp.traces import TracesRequest
from pipeline_contracts.records import BatchMeta
from tests.ingest_edge.sentry.test_convert import LIMITS, SPAN, TRACE, TRANSACTION, envelope
from tests.support.otlp_pipeline import validate_json_body

_FRAMES = {
    "frames": [{"filename": "a.py", "function": "f", "lineno": 3, "context_line": "x", "vars": {"a": "1"}}]
}
_EVENT: dict[str, Any] = {
    "event_id": TRACE,
    "message": {"message": "a %s", "formatted": "a b", "params": ["b"]},
    "level": "error",
    "platform": "python",
    "timestamp": "2023-11-14T22:13:20Z",
    "release": "shop@1.2",
    "fingerprint": ["{{ default }}", "x"],
    "tags": {"region": "eu"},
    "user": {"id": 7},
    "sdk": {"name": "sentry.python", "version": "2"},
    "contexts": {
        "trace": {"trace_id": TRACE, "span_id": SPAN},
        "otel": {"resource": {"service.name": "shop"}},
    },
    "exception": {"values": [{"type": "A", "value": "b", "stacktrace": _FRAMES, "mechanism": {"type": "c"}}]},
    "threads": {"values": [{"stacktrace": _FRAMES}]},
    "breadcrumbs": {"values": [{"message": "x"}]},
}
_TYPED = {
    "sentry.op": {"value": "db.sql", "type": "string"},
    "sentry.release": {"value": "shop@1", "type": "string"},
}
_STREAMED: dict[str, Any] = {
    "items": [
        {
            "trace_id": TRACE,
            "span_id": SPAN,
            "parent_span_id": SPAN,
            "name": "a",
            "status": "error",
            "start_timestamp": 1700000000,
            "end_timestamp": 1700000001,
            "attributes": _TYPED,
            "links": [{"trace_id": TRACE, "span_id": SPAN, "attributes": _TYPED}],
        }
    ]
}
_LOGS: dict[str, Any] = {
    "items": [
        {"timestamp": 1700000000.5, "level": "info", "body": "hi", "trace_id": TRACE, "attributes": _TYPED}
    ]
}
_CHECK_IN = {"monitor_slug": "a", "status": "ok", "check_in_id": TRACE}
_ITEMS = [
    ("event", _EVENT),
    ("transaction", TRANSACTION),
    ("span", _STREAMED),
    ("span", {**TRANSACTION["spans"][0], "trace_id": TRACE, "data": {"a": [1]}}),  # type: ignore[index, dict-item]
    ("log", _LOGS),
    ("check_in", _CHECK_IN),
]
_ODD: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1.5,
        2**63,
        -(2**70),
        1e308,
        "",
        "x",
        "0" * 32,
        "\ud83d",
        "\0",
        "\u00e9" * 300,
    ),
    *(
        [],
        {},
        [[]],
        [None],
        {"values": None},
        {"values": [None, 1, "x", {}]},
        {"": {}},
        [["a", "b"]],
        "9" * 5000,
    ),
    *({"a": {"value": {"b": [1]}}}, 1700000000, "2026-11-27T23:56:31Z", "2026-13-27"),
]
_TYPES = ("event", "transaction", "span", "log", "check_in")


_SIGNALS: dict[str, tuple[str, Any, Any]] = {
    topics.TRACES: ("traces", TracesRequest, trace_rows),
    topics.LOGS: ("logs", LogsRequest, log_rows),
}


def _mutate(value: Any, chance: float, dice: random.Random) -> Any:
    if dice.random() < chance:
        return dice.choice(_ODD)
    if isinstance(value, dict):
        return {key: _mutate(member, chance, dice) for key, member in value.items()}
    if isinstance(value, list):
        return [_mutate(member, chance, dice) for member in value]
    return value


def _read(record: Record) -> int:
    """Validate a record like those of other senders, and read it as the consumers do; return the number of rows."""
    if record.topic == topics.TELEMETRY:
        _, body = decode_batch(record.body, LIMITS)
        assert body is record.body
        rows = telemetry_rows(record.body, BatchMeta("a", "p", "e", 0, 1, "b"), "r", "log", 1)
        json.loads(rows.lines)
        return rows.rows
    signal, request, make = _SIGNALS[record.topic]
    verdict, _ = validate_json_body(signal, record.body, LIMITS)
    assert (verdict.accepted, verdict.rejections) == (record.count, 0)
    origin = RecordOrigin(OtlpMeta("a", "p", "e", 0, record.count), "log", 1)
    count = 0
    for _, lines, rows in make(msgspec.json.decode(record.body, type=request, strict=False), origin):
        count += rows
        for line in lines.splitlines():
            json.loads(line)
    return count


def test_odd_values_never_become_unreadable_records() -> None:
    dice = random.Random(28)
    kept = refused = 0
    for _ in range(3000):
        kind, content = dice.choice(_ITEMS)
        if dice.random() < 0.1:
            kind = dice.choice(_TYPES)
        body = envelope((kind, json.dumps(_mutate(content, dice.choice((0.01, 0.05, 0.3)), dice))))
        if dice.random() < 0.2:
            changed = bytearray(body)
            changed[dice.randrange(len(changed))] = dice.randrange(256)
            body = bytes(changed)
        try:
            converted = convert_envelope(read_envelope(body), LIMITS)
        except Problem:
            refused += 1
            continue
        kept += sum(_read(record) == record.count for record in converted.records)
    assert kept > 500 and refused > 100
