"""Makes valid bodies of all kinds."""

import json
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, get_args, get_origin

import msgspec
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from pipeline_contracts.otlp.logs import LogsRequest
from pipeline_contracts.otlp.metrics import MetricsRequest
from pipeline_contracts.otlp.traces import TracesRequest
from pipeline_contracts.otlp.values import AnyValue, Int32, Int64, SnakeCase, UInt32
from pipeline_contracts.telemetry import EventType, Severity

_JSON_TYPES: Mapping[str, type[msgspec.Struct]] = {
    "traces": TracesRequest,
    "logs": LogsRequest,
    "metrics": MetricsRequest,
}
_MESSAGES: Mapping[str, type[Message]] = {
    "traces": ExportTraceServiceRequest,
    "logs": ExportLogsServiceRequest,
    "metrics": ExportMetricsServiceRequest,
}
_WORDS = (
    *(
        "",
        "a",
        "checkout",
        "GET /orders/{id}",
        "SELECT * FROM orders WHERE id = $1",
        "null",
        "true",
        "1",
        "-1.5",
    ),
    *(
        "Zürich",
        "Ωmega",
        "北京",
        "👩‍🚀 lift-off 🚀",
        'a "quoted" word',
        "C:\\temp\\new",
        "line\nbreak\ttab",
        "\u2028",
    ),
    *(
        "\x7f",
        "\x00",
        "\x1f",
        "/a/b",
        "𝔘𝔫𝔦",
        "é" * 40,
        "x" * 200,
        "NaN",
        "\ufeff",
        "\ud7ff\ue000",
        "\U0010ffff",
    ),
)


def make_body(chance: random.Random, kind: str) -> bytes:
    """Return a valid body of this kind as a careful sender might make it, of one to five records."""
    if kind == "ingest":
        return write_json(chance, _batch(chance))
    signal, coding = kind.split()
    if coding == "json":
        return write_json(chance, _struct(chance, _JSON_TYPES[signal], 0))
    message = _MESSAGES[signal]()
    _fill(chance, message, 0)
    body: bytes = message.SerializeToString()
    return body


def write_json(chance: random.Random, document: Any) -> bytes:
    """Return a document as JSON, with random escapes and white space."""
    indent = chance.choice((None, None, None, 1))
    separators = chance.choice(((",", ":"), (",", ":"), (", ", ": "), (" ,\t", "\r\n: ")))
    text = json.dumps(document, ensure_ascii=chance.random() < 0.4, separators=separators, indent=indent)
    if chance.random() < 0.2:
        text = text.replace("/", "\\/")
    # Numbers that Python does not write stand between these marks.
    return text.replace('"@@', "").replace('@@"', "").encode("utf-8", "surrogatepass")


def _text(chance: random.Random) -> str:
    return "".join(chance.choice(_WORDS) for _ in range(chance.choice((1, 1, 1, 2, 3))))


def _any_json(chance: random.Random, level: int = 0) -> Any:
    kind = chance.randrange(8 if level < 3 else 6)
    if kind == 6:
        return [_any_json(chance, level + 1) for _ in range(chance.randrange(4))]
    if kind == 7:
        return {_text(chance): _any_json(chance, level + 1) for _ in range(chance.randrange(4))}
    number = chance.choice((0, -1, 1.5, 1e-7, -2.5e20, 10**18, 1e300, "@@-0@@", "@@1E+2@@", "@@0.0e-3@@"))
    return (None, True, False, number, _text(chance), chance.randrange(-(2**40), 2**40))[kind]


def _time(chance: random.Random) -> str:
    zone = chance.choice((UTC, UTC, timezone(timedelta(minutes=chance.randrange(-1439, 1440)))))
    moment = datetime(2026, 1, 1, tzinfo=zone) + timedelta(microseconds=chance.randrange(-(10**15), 10**15))
    text = moment.isoformat(chance.choice("TTT "), chance.choice(("seconds", "milliseconds", "microseconds")))
    if chance.random() < 0.1 and "." in text:
        text = text.replace(".", ".123")
    return text.replace("+00:00", chance.choice(("Z", "Z", "z", "+00:00", "-00:00")))


def _batch(chance: random.Random) -> dict[str, Any]:
    batch = {
        "batch_id": (_text(chance) or "b")[:100],
        "events": [_event(chance) for _ in range(chance.choice((1, 1, 2, 3)))],
    }
    if chance.random() < 0.2:
        batch["sent_by"] = _any_json(chance)
    return _shuffle(chance, batch)


def _event(chance: random.Random) -> dict[str, Any]:
    words = ("id", "name", "title", "trace_id", "span_id", "parent_span_id", "route", "url", "service")
    event: dict[str, Any] = {name: _text(chance) for name in (*words, "fingerprint", "details")}
    event |= {
        "severity": chance.choice(get_args(Severity)),
        "timestamp": _time(chance),
        "status_code": chance.choice((200, 404, 0, -(2**63), 2**63 - 1, "@@-0@@")),
        "duration_ms": chance.choice((0, 12.5, 1e-9, 10**25, -3, "@@1e2@@", "@@1.797e299@@")),
        "affected_users": chance.randrange(1000),
        "attributes": {_text(chance): _any_json(chance) for _ in range(chance.randrange(4))},
        "payload": {_text(chance): _any_json(chance) for _ in range(chance.randrange(4))},
        "unknown": _any_json(chance),
    }
    event = {name: value for name, value in event.items() if chance.random() < 0.5}
    event = {name: None if chance.random() < 0.1 else value for name, value in event.items()}
    return _shuffle(chance, event | {"type": chance.choice(get_args(EventType))})


def _shuffle(chance: random.Random, document: dict[str, Any]) -> dict[str, Any]:
    if chance.random() < 0.7:
        return document
    items = list(document.items())
    chance.shuffle(items)
    return dict(items)


def _struct(chance: random.Random, type_: type[msgspec.Struct], level: int) -> dict[str, Any]:
    """Return an object of this type: its members come from the contract, so that a new one is covered too."""
    document: dict[str, Any] = {}
    fields = [field for field in msgspec.structs.fields(type_) if field.type != SnakeCase]
    if type_ is AnyValue:
        if level > 12:
            return {}
        fields = [chance.choice(fields)]
    for field in fields:
        name = field.encode_name
        if name not in _NEEDED and chance.random() < (0.1 if level < 4 else 0.45):
            continue
        document[name] = _member(chance, name, field.type, level)
        if name not in (*_NEEDED, "key") and chance.random() < 0.05:
            document[name] = None
    if type_ is not AnyValue and chance.random() < 0.1:
        document["unknownMember"] = _any_json(chance)
    if document.get("startTimeUnixNano") and "endTimeUnixNano" in document:
        document["endTimeUnixNano"] = document["startTimeUnixNano"]
    return _shuffle(chance, document)


# Members without which records are rejected.
_NEEDED = frozenset(
    ("traceId", "spanId", "startTimeUnixNano", "endTimeUnixNano", "timeUnixNano", "asInt", "asDouble")
)


def _member(chance: random.Random, name: str, type_: Any, level: int) -> Any:
    if name in ("traceId", "spanId", "parentSpanId"):
        return chance.randbytes(16 if name == "traceId" else 8).hex().replace("00", "Af")
    if name.endswith("UnixNano"):
        return _integer(chance, (1, 1_790_000_000_123_456_789, 2**63 - 1))
    part = next(part for part in (get_args(type_) or (type_,)) if part is not type(None))
    if get_origin(type_) is not None and get_origin(part) is None and part in (Int32, UInt32, Int64):
        type_ = part
    if get_origin(part) is list or get_origin(type_) is list:
        item = get_args(part if get_origin(part) is list else type_)[0]
        return [_member(chance, "", item, level + 1) for _ in range(chance.choice((0, 1, 1, 2)))]
    if isinstance(part, type) and issubclass(part, msgspec.Struct):
        return _struct(chance, part, level + 1)
    if part is str:
        return _text(chance)
    if part is bool:
        return chance.random() < 0.5
    if part is bytes:
        return chance.choice(("", "YQ==", "YWI=", "YWJj", "+/+/"))
    if part is float:
        numbers = (
            0,
            1.5,
            -2,
            1e300,
            1e15,
            "1.5",
            "NaN",
            "Infinity",
            "-Infinity",
            "@@1E5@@",
            10**20,
            "7",
            "-0",
        )
        return chance.choice(numbers)
    if part == UInt32:
        return _integer(chance, (0, 1, 257, 2**32 - 1))
    if part == Int32:
        return _integer(chance, (0, 1, 2, -(2**31), 2**31 - 1))
    if part == Int64:
        return _integer(chance, (0, 5, -7, 2**63 - 1, -(2**63)))
    return _integer(chance, (0, 5, 2**63 - 1))


def _integer(chance: random.Random, numbers: Sequence[int]) -> int | str:
    number = chance.choice(numbers)
    return str(number) if chance.random() < 0.5 else number


def _fill(chance: random.Random, message: Any, level: int) -> None:
    """Set fields of a message: they come from the protocol's description, so that a new one is covered too."""
    fields = list(message.DESCRIPTOR.fields)
    is_value = message.DESCRIPTOR.name == "AnyValue"
    if is_value or message.DESCRIPTOR.name == "Metric":
        chosen = chance.choice([field for field in fields if field.containing_oneof is not None])
        fields = [field for field in fields if field.containing_oneof is None] + [chosen]
    for field in fields:
        is_needed = field.name in ("trace_id", "span_id", "time_unix_nano", "as_int") or is_value
        if not is_needed and chance.random() < (0.1 if level < 4 else 0.5):
            continue
        if field.message_type is not None:
            _fill_message(chance, message, field, level)
        elif field.is_repeated:
            getattr(message, field.name).extend(_scalar(chance, field) for _ in range(chance.randrange(3)))
        else:
            setattr(message, field.name, _scalar(chance, field))
    if message.DESCRIPTOR.name == "Span":
        message.end_time_unix_nano = message.start_time_unix_nano


def _fill_message(chance: random.Random, message: Any, field: Any, level: int) -> None:
    if level > 14:
        return
    if not field.is_repeated:
        getattr(message, field.name).SetInParent()
        _fill(chance, getattr(message, field.name), level + 1)
        return
    for _ in range(chance.choice((0, 1, 1, 2))):
        _fill(chance, getattr(message, field.name).add(), level + 1)


def _scalar(chance: random.Random, field: Any) -> Any:
    if field.name in ("trace_id", "span_id", "parent_span_id"):
        return chance.randbytes(16 if field.name == "trace_id" else 8)
    if field.type == field.TYPE_STRING:
        return _text(chance)
    if field.type == field.TYPE_BYTES:
        return chance.randbytes(chance.randrange(9))
    if field.type == field.TYPE_BOOL:
        return chance.random() < 0.5
    if field.type == field.TYPE_DOUBLE:
        return chance.choice((0.0, 1.5, -2e300, float("inf"), float("nan")))
    return chance.choice((1, 5, 200, 2**31 - 1))
