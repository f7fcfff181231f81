"""Conversion of items: the consumers can decode each record, and each record has a stable identity."""

import json
from typing import Any

import msgspec
import pytest

from ingest_edge.limits import Limits
from ingest_edge.sentry.convert import ITEM_BYTES, MAX_RECORDS, Converted, convert_envelope
from ingest_edge.sentry.envelope import read_envelope
from pipeline_contracts import topics
from pipeline_contracts.errors import InvalidInput, PayloadTooLarge
from pipeline_contracts.otlp.logs import LogsRequest
from pipeline_contracts.otlp.traces import TracesRequest
from pipeline_contracts.settings import Settings
from pipeline_contracts.telemetry import TelemetryBatch

LIMITS = Limits.from_settings(Settings())
ID = "9ec79c33ec9942ab8353589fcb2e04dc"
TRACE = "5b8efff798038103d269b633813fc60c"
SPAN = "eee19b7ec3c1b174"
_DECODERS = {topics.TELEMETRY: TelemetryBatch, topics.TRACES: TracesRequest, topics.LOGS: LogsRequest}


def envelope(*items: tuple[str, Any], header: dict[str, Any] | None = None) -> bytes:
    lines = [json.dumps(header or {})]
    for kind, payload in items:
        text = payload if isinstance(payload, str) else json.dumps(payload)
        lines += [json.dumps({"type": kind, "length": len(text.encode())}), text]
    return "\n".join(lines).encode()


def convert(*items: tuple[str, Any], header: dict[str, Any] | None = None) -> Converted:
    result = convert_envelope(read_envelope(envelope(*items, header=header)), LIMITS)
    for record in result.records:
        # Decode the record as the consumers do.
        msgspec.json.Decoder(_DECODERS[record.topic], strict=False).decode(record.body)
    return result


def converted_event(event: dict[str, Any]) -> dict[str, Any]:
    [record] = convert(("event", event)).records
    assert (record.topic, record.count) == (topics.TELEMETRY, 1)
    [converted] = json.loads(record.body)["events"]
    return converted  # type: ignore[no-any-return]


def converted_spans(kind: str, payload: Any) -> list[dict[str, Any]]:
    [record] = convert((kind, payload)).records
    groups = json.loads(record.body)["resourceSpans"]
    return [span for group in groups for scope in group["scopeSpans"] for span in scope["spans"]]


def attributes_of(record: dict[str, Any]) -> dict[str, Any]:
    return {each["key"]: next(iter(each["value"].values())) for each in record["attributes"]}


EVENTS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("message", {"message": "hi"}, {"title": "hi", "name": None, "severity": "error"}),
    ("empty", {}, {"title": "(no message)", "details": None, "fingerprint": None}),
    (
        "message as object",
        {"message": {"formatted": "hi 7", "message": "hi %s"}},
        {"title": "hi 7", "fingerprint": None},
    ),
    (
        "message with parameters",
        {"logentry": {"formatted": "hi 7", "message": "hi %s", "params": [7]}},
        {"title": "hi 7", "fingerprint": "hi %s"},
    ),
    ("fatal", {"level": "fatal", "message": "x"}, {"severity": "critical"}),
    ("odd level", {"level": 7, "message": "x"}, {"severity": "error"}),
    (
        "seconds",
        {"message": "x", "timestamp": 1700000000.25},
        {"timestamp": "2023-11-14T22:13:20.250000+00:00"},
    ),
    (
        "time without zone",
        {"message": "x", "timestamp": "2023-11-14T22:13:20"},
        {"timestamp": "2023-11-14T22:13:20+00:00"},
    ),
    ("no time", {"message": "x", "timestamp": "yesterday"}, {"timestamp": None}),
    ("time of the future", {"message": "x", "timestamp": 1e300}, {"timestamp": None}),
    (
        "trace",
        {"message": "x", "contexts": {"trace": {"trace_id": TRACE.upper(), "span_id": SPAN}}},
        {"trace_id": TRACE, "span_id": SPAN, "parent_span_id": None},
    ),
    (
        "bad trace",
        {"message": "x", "contexts": {"trace": {"trace_id": "0" * 32, "span_id": "zz"}}},
        {"trace_id": None, "span_id": None},
    ),
    (
        "route",
        {"message": "x", "transaction": "GET /a", "request": {"url": "https://shop.example/a"}},
        {"route": "GET /a", "url": "https://shop.example/a"},
    ),
    (
        "exception as list",
        {"exception": [{"type": "A", "value": "b"}]},
        {"name": "A", "title": "b", "details": "A: b"},
    ),
    ("exception alone", {"exception": {"type": "A", "value": "b"}}, {"name": "A", "title": "b"}),
    ("exception without message", {"exception": {"values": [{"type": "A"}]}}, {"name": "A", "title": "A"}),
    (
        "last exception counts",
        {"exception": {"values": [{"type": "A"}, None, {"type": "B", "value": "c"}]}},
        {"name": "B", "title": "c"},
    ),
    ("fingerprint", {"message": "x", "fingerprint": ["pay", 7]}, {"fingerprint": "pay\n7"}),
    ("default fingerprint", {"message": "x", "fingerprint": ["{{ default }}"]}, {"fingerprint": None}),
    (
        "extended fingerprint",
        {
            "exception": [{"type": "A", "stacktrace": {"frames": [{"function": "f"}]}}],
            "fingerprint": ["{{default}}", "eu"],
        },
        {"fingerprint": "A:f\neu"},
    ),
    ("service by release", {"message": "x", "release": "shop@1.2"}, {"service": "shop"}),
    (
        "service by tag",
        {"message": "x", "release": "shop@1.2", "tags": {"service": "web"}},
        {"service": "web"},
    ),
    (
        "service unknown",
        {"message": "x", "release": "3f2c", "platform": "python"},
        {"service": "unknown_service:python"},
    ),
    (
        "wrong types",
        {
            "exception": 7,
            "tags": 3,
            "user": [],
            "contexts": "x",
            "request": 1,
            "breadcrumbs": 7,
            "message": 5,
            "sdk": 1,
        },
        {"title": "5"},
    ),
]


def test_events_become_exceptions() -> None:
    for name, event, expected in EVENTS:
        converted = converted_event({"event_id": ID, **event})
        assert converted["type"] == "exception" and converted["id"] == ID, name
        assert {key: converted[key] for key in expected} == expected, name


def test_attributes_and_payload_of_an_event() -> None:
    event = {
        "event_id": ID,
        "message": "x",
        "platform": "python",
        "release": "shop@1.2",
        "environment": "eu",
        "server_name": "web-1",
        "logger": "shop.pay",
        "tags": [["region", "eu"], ["user.id", "from a tag"], ["odd"], ["empty", None]],
        "user": {"username": "ada", "ip_address": "203.0.113.7"},
        "extra": {"order": {"id": 17}},
        "breadcrumbs": {"values": [{"message": "before"}]},
        "sdk": {"name": "sentry.python", "version": "2.0"},
        "exception": {"values": [{"type": "A", "mechanism": {"type": "django", "handled": False}}]},
    }
    converted = converted_event(event)
    assert converted["attributes"] == {
        "region": "eu",
        "user.id": "ada",
        "exception.type": "A",
        "service.version": "1.2",
        "deployment.environment.name": "eu",
        "host.name": "web-1",
        "logger": "shop.pay",
        "sentry.release": "shop@1.2",
        "sentry.platform": "python",
        "sentry.sdk": "sentry.python 2.0",
        "sentry.mechanism": "django",
        "sentry.handled": False,
    }
    payload = converted["payload"]
    assert payload["extra"] == {"order": {"id": 17}}
    assert payload["breadcrumbs"] == event["breadcrumbs"] and payload["user"] == event["user"]


def test_large_and_deep_parts_of_an_event_are_left_out() -> None:
    deep: Any = "x"
    for _ in range(400):
        deep = [deep]
    event = {
        "event_id": ID,
        "message": "y" * 100_000,
        "extra": {"deep": deep},
        "breadcrumbs": [{"message": "x" * 300_000}],
        "modules": {"a": "1"},
    }
    converted = converted_event(event)
    assert converted["attributes"]["sentry.left_out"] == "extra, breadcrumbs"
    assert converted["payload"] == {"modules": {"a": "1"}}
    assert len(converted["title"]) == 8192
    assert len(json.dumps(converted)) < LIMITS.event_bytes


TRANSACTION = {
    "event_id": ID,
    "transaction": "GET /orders",
    "start_timestamp": 1700000000.0,
    "timestamp": "2023-11-14T22:13:20.5Z",
    "release": "shop@1.2",
    "user": {"id": 7},
    "request": {"method": "GET", "url": "https://shop.example/orders"},
    "measurements": {"lcp": {"value": 1200.5, "unit": "millisecond"}},
    "contexts": {
        "trace": {
            "trace_id": TRACE,
            "span_id": SPAN,
            "op": "http.server",
            "status": "not_found",
            "data": {"a": [1]},
        },
        "response": {"status_code": 404},
    },
    "spans": [
        {
            "span_id": "aaaaaaaaaaaaaaaa",
            "parent_span_id": SPAN,
            "op": "db",
            "description": "SELECT 1",
            "start_timestamp": 1700000000.1,
            "timestamp": 1700000000.2,
        },
        {
            "span_id": "bbbbbbbbbbbbbbbb",
            "parent_span_id": SPAN,
            "op": "http.client",
            "description": "GET https://a.example/b?secret=1",
            "status": "not_found",
            "start_timestamp": 1700000000.1,
            "timestamp": 1700000000.2,
        },
        {"span_id": "cccccccccccccccc", "start_timestamp": 2, "timestamp": 1},
        {"span_id": "dddddddddddddddd", "start_timestamp": 1},
        7,
    ],
}


def test_transaction_becomes_spans() -> None:
    result = convert(("transaction", TRANSACTION))
    assert result.dropped == {("transaction", "invalid"): 3}
    root, query, call = converted_spans("transaction", TRANSACTION)
    assert (root["traceId"], root["spanId"], root["name"], root["kind"]) == (TRACE, SPAN, "GET /orders", 2)
    assert (root["startTimeUnixNano"], root["endTimeUnixNano"]) == (
        1700000000 * 10**9,
        1700000000 * 10**9 + 5 * 10**8,
    )
    # A caller's fault is not an error of the server, as in OpenTelemetry.
    assert "status" not in root and "parentSpanId" not in root
    assert attributes_of(root) == {
        "a": "[1]",
        "sentry.measurements.lcp": 1200.5,
        "url.full": "https://shop.example/orders",
        "http.request.method": "GET",
        "http.response.status_code": 404,
        "user.id": "7",
        "sentry.op": "http.server",
    }
    assert (query["name"], query["kind"], query["parentSpanId"]) == ("SELECT 1", 3, SPAN)
    assert attributes_of(query) == {"sentry.op": "db", "db.system": "other_sql", "db.query.text": "SELECT 1"}
    assert (call["name"], call["kind"]) == ("GET https://a.example/b", 3)
    assert call["status"] == {"code": 2, "message": "not_found"}


KINDS = {
    "http.server": 2,
    "grpc.server": 2,
    "http.client": 3,
    "db.redis": 3,
    "cache.get": 3,
    "queue.publish": 4,
    "queue.submit.celery": 4,
    "queue.process": 5,
    "queue.task.celery": 5,
    "pageload": 1,
    "": 1,
}
STATUSES = {
    "ok": {"code": 1},
    "internal_error": {"code": 2, "message": "internal_error"},
    "deadline_exceeded": {"code": 2, "message": "deadline_exceeded"},
    "cancelled": None,
    "invalid_argument": None,
    "": None,
}


def test_kind_and_status_of_spans() -> None:
    span = {"trace_id": TRACE, "span_id": SPAN, "start_timestamp": 1700000000, "timestamp": 1700000001}
    for op, kind in KINDS.items():
        assert converted_spans("span", {**span, "op": op})[0]["kind"] == kind, op
    for status, expected in STATUSES.items():
        assert converted_spans("span", {**span, "status": status})[0].get("status") == expected, status


def test_streamed_spans_and_logs() -> None:
    def typed(**values: Any) -> dict[str, Any]:
        return {name.replace("__", "."): {"value": value, "type": "string"} for name, value in values.items()}

    span = {
        "trace_id": TRACE,
        "span_id": SPAN,
        "parent_span_id": "aaaaaaaaaaaaaaaa",
        "name": "GET /orders",
        "status": "error",
        "start_timestamp": 1700000000,
        "end_timestamp": 1700000001.5,
        "attributes": typed(
            sentry__op="http.server", sentry__release="shop@2", n=7, sentry__status__message="oops"
        ),
        "links": [{"trace_id": TRACE, "span_id": "bbbbbbbbbbbbbbbb"}, {"trace_id": "x"}],
    }
    [converted] = converted_spans("span", {"version": 2, "items": [span, {"name": "no IDs"}]})
    assert (converted["name"], converted["kind"], converted["parentSpanId"]) == (
        "GET /orders",
        2,
        "aaaaaaaaaaaaaaaa",
    )
    assert converted["status"] == {"code": 2, "message": "oops"}
    assert attributes_of(converted) == {"sentry.op": "http.server", "n": 7, "sentry.status.message": "oops"}
    assert [link["spanId"] for link in converted["links"]] == ["bbbbbbbbbbbbbbbb"]

    log = {"timestamp": 1700000000.5, "level": "warn", "body": "hi", "trace_id": TRACE}
    items = [
        {**log, "attributes": typed(sentry__release="shop@2", sentry__trace__parent_span_id=SPAN, a=True)},
        {**log, "severity_number": 99, "level": "fatal", "span_id": SPAN, "body": {"a": 1}},
        {"body": "no time"},
        {"timestamp": 1700000000.5},
        [],
    ]
    result = convert(
        ("log", {"items": items}), header={"sdk": {"name": "sentry.javascript.node", "version": "11"}}
    )
    assert result.dropped == {("log", "invalid"): 3}
    groups = json.loads(result.records[0].body)["resourceLogs"]
    assert attributes_of(groups[0]["resource"])["service.name"] == "shop"
    assert attributes_of(groups[1]["resource"]) == {
        "service.name": "unknown_service:node",
        "telemetry.sdk.name": "sentry.javascript.node",
        "telemetry.sdk.version": "11",
        "telemetry.sdk.language": "nodejs",
    }
    [first], [second] = (group["scopeLogs"][0]["logRecords"] for group in groups)
    assert (first["severityNumber"], first["severityText"], first["spanId"]) == (13, "WARN", SPAN)
    assert attributes_of(first) == {"a": True}
    assert (second["severityNumber"], second["body"], second["spanId"]) == (
        21,
        {"stringValue": '{"a":1}'},
        SPAN,
    )


def test_identity_depends_on_the_content_alone() -> None:
    """A resent envelope has another header. Its event has the same ID, and its other items have the same content."""
    log = {"items": [{"timestamp": 1700000000, "level": "info", "body": "hi"}]}

    def identities(*items: tuple[str, Any], header: dict[str, Any] | None = None) -> list[str]:
        return [record.identity for record in convert(*items, header=header).records]

    event, transaction = ("event", {"message": "x"}), ("transaction", TRANSACTION)
    sent_again = {"sent_at": "2026-01-01T00:00:00Z"}
    assert identities(("log", log)) == identities(("log", log), header=sent_again)
    assert identities(("log", log)) == identities(("log", log), ("session", {}))
    assert identities(("log", log)) != identities(("log", log), ("log", log))
    assert identities(event, header={"event_id": ID}) == [f"sentry:event:{ID}"]
    assert (
        identities(event) == identities(event, header=sent_again) != identities(("event", {"message": "y"}))
    )
    assert identities(transaction) == [f"sentry:transaction:{ID}"]
    assert identities(("event", {"event_id": "9EC79C33-EC99-42AB-8353-589FCB2E04DC"})) == [
        f"sentry:event:{ID}"
    ]
    long = "x" * 100
    assert len(identities(("event", {"event_id": long, "message": "x"}))[0]) < 100


def test_dropped_items_are_counted_by_type() -> None:
    items = [
        ("session", {}),
        ("session", {}),
        ("client_report", {}),
        ("profile", "not read"),
        ("made up", {}),
        ("", {}),
    ]
    result = convert(*items, ("event", {"message": "x"}))
    assert result.dropped == {
        ("session", "not_kept"): 2,
        ("client_report", "not_kept"): 1,
        ("profile", "not_kept"): 1,
        ("unknown", "not_kept"): 2,
    }
    assert result.count == 1
    assert convert(("replay_event", {})).records == []


BROKEN: list[tuple[str, Any]] = [
    ("event", "{"),
    ("event", "[]"),
    ("event", '{"a":NaN}'),
    ("event", '{"a":"\x01"}'),
    ("event", '{"a":' + "[" * 5000 + "]" * 5000 + "}"),
    ("transaction", {}),
    ("transaction", {"contexts": {"trace": {"trace_id": TRACE}}}),
    ("span", {"items": [{}]}),
    ("log", {"items": [{}]}),
    ("check_in", {"status": "ok"}),
    ("check_in", {"monitor_slug": "a", "status": "odd"}),
]


def test_broken_item_alone_is_refused_and_counted_next_to_others() -> None:
    for kind, payload in BROKEN:
        with pytest.raises(InvalidInput):
            convert((kind, payload))
        result = convert((kind, payload), ("event", {"message": "x"}))
        assert (result.count, result.dropped) == (1, {(kind, "invalid"): 1}), (kind, payload)


def test_large_items_are_refused() -> None:
    large = {"message": "x" * ITEM_BYTES}
    with pytest.raises(PayloadTooLarge):
        convert(("event", large))
    assert convert(("event", large), ("event", {"message": "x"})).dropped == {("event", "too_large"): 1}
    log = {
        "timestamp": 1700000000,
        "level": "info",
        "attributes": {"a": {"value": "x" * 300_000}},
        "body": "hi",
    }
    assert convert(("log", {"items": [log, {**log, "attributes": {}}]})).dropped == {("log", "too_large"): 1}
    short = {"timestamp": 1700000000, "level": "info", "body": "hi"}
    with pytest.raises(PayloadTooLarge):
        convert(
            ("log", {"items": [short] * (MAX_RECORDS // 2)}),
            ("log", {"items": [short] * (MAX_RECORDS // 2 + 1)}),
        )


def test_rows_of_an_envelope_are_limited() -> None:
    """Each row repeats the resource, so many small records of a sender with long names grow to many times their
    bytes."""
    names = ("release", "environment", "sdk.name", "sdk.version")
    attributes = {f"sentry.{name}": {"value": "\x01" * 255} for name in names}
    record = {"timestamp": 1700000000, "level": "info", "body": "hi", "attributes": attributes}
    logs = ("log", {"items": [record] * 300})
    assert convert(logs).count == 300
    with pytest.raises(PayloadTooLarge, match="rows of up to"):
        convert(*[logs] * 10)


def test_lone_surrogates_are_replaced() -> None:
    [record] = convert(("event", '{"message":"a\\ud83d"}')).records
    assert json.loads(record.body)["events"][0]["title"] == "a\ufffd"
