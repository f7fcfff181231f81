"""Malformed requests, and what each is answered."""

import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.otlp.requests import attribute, logs, metrics, nested, span, traces
from tests.support.otlp_pipeline import PROTOBUF

GZIP = {"Content-Encoding": "gzip"}


@dataclass(frozen=True, slots=True)
class Case:
    """What is sent, and what it is answered."""

    name: str
    body: Any
    status: int
    code: int
    message: str
    """How it begins."""
    signal: str = "traces"
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)


def _shape(name: str, body: Any, message: str, signal: str = "traces") -> Case:
    return Case(name, body, 400, 3, f"The body has the wrong shape: {message}", signal)


GOOD = traces(span())
NOT_JSON = "The body must be application/json. Set the exporter's protocol to http/json"
LARGE_RESOURCE = {
    "resourceLogs": [
        {
            "resource": {"attributes": [attribute("a", stringValue="x" * 60_000)]},
            "scopeLogs": [{"logRecords": [{}] * 2000}],
        }
    ]
}


def _point(kind: str, **members: Any) -> dict[str, Any]:
    """A metric of this kind with one point."""
    return metrics({"name": "m", kind: {"dataPoints": [{"timeUnixNano": "1", **members}]}})


CASES = [
    Case("no body", b"", 400, 3, "The body is not valid JSON: Input data was truncated."),
    Case("cut short", b'{"resourceSpans":[', 400, 3, "The body is not valid JSON: Input data was truncated."),
    Case("no JSON", b"hello", 400, 3, "The body is not valid JSON: JSON is malformed: invalid character"),
    Case("trailing", b"{} {}", 400, 3, "The body is not valid JSON: JSON is malformed: trailing characters"),
    Case("single quotes", b"{'resourceSpans':[]}", 400, 3, "The body is not valid JSON: JSON is malformed"),
    Case("not UTF-8", b'{"resourceSpans":[],"x":"\xff"}', 400, 3, "The body is not valid UTF-8 (byte 25)."),
    Case("nested unknown", b'{"x":' + b"[" * 5000, 400, 3, "The body is nested too deeply."),
    Case(
        "nested value",
        traces(span(attributes=[{"key": "a", "value": nested(40)}])),
        400,
        3,
        "The body is nested deeper than 64 levels.",
    ),
    _shape("a list", [], "Expected `object`, got `array`."),
    _shape("null", b"null", "Expected `object`, got `null`."),
    _shape("a string", b'"x"', "Expected `object`, got `str`."),
    _shape(
        "an object for a list",
        {"resourceSpans": {}},
        "Expected `array | null`, got `object` - at `$.resourceSpans`.",
    ),
    _shape(
        "a number for spans",
        {"resourceSpans": [{"scopeSpans": [{"spans": 5}]}]},
        "Expected `array | null`, got `int` - at `$.resourceSpans[0].scopeSpans[0].spans`.",
    ),
    _shape("a string for a span", traces("x"), "Expected `object`, got `str`"),
    _shape("a number for a trace ID", traces(span(traceId=5)), "Expected `str | null`, got `int`"),
    _shape(
        "a word for a time", traces(span(startTimeUnixNano="yesterday")), "Expected `int | null`, got `str`"
    ),
    _shape("a negative time", traces(span(startTimeUnixNano="-1")), "Expected `int` >= 0"),
    _shape(
        "a fraction for a time", traces(span(startTimeUnixNano=1.5)), "Expected `int | null`, got `float`"
    ),
    _shape("a name for a kind", traces(span(kind="SPAN_KIND_SERVER")), "Expected `int | null`, got `str`"),
    _shape("a status that is no object", traces(span(status=2)), "Expected `object | null`, got `int`"),
    _shape(
        "attributes as a map", traces(span(attributes={"a": "b"})), "Expected `array | null`, got `object`"
    ),
    _shape("a key that is no text", traces(span(attributes=[{"key": 1}])), "Expected `str`, got `int`"),
    _shape(
        "a bare value",
        traces(span(attributes=[{"key": "a", "value": "b"}])),
        "Expected `object | null`, got `str`",
    ),
    _shape(
        "a word for an integer",
        traces(span(attributes=[attribute("a", intValue="ten")])),
        "Expected `int | null`, got `str`",
    ),
    _shape(
        "an integer of 65 bits",
        traces(span(attributes=[attribute("a", intValue=str(2**64))])),
        "Expected `int` <= 9223372036854775807",
    ),
    _shape(
        "a list for a text",
        traces(span(attributes=[attribute("a", stringValue=[])])),
        "Expected `str | null`, got `array`",
    ),
    _shape("an event that is none", traces(span(events=[7])), "Expected `object`, got `int`"),
    _shape("a link that is none", traces(span(links=["x"])), "Expected `object`, got `str`"),
    _shape(
        "a word for a severity", logs({"severityNumber": "INFO"}), "Expected `int | null`, got `str`", "logs"
    ),
    _shape(
        "a body of a log that is no value", logs({"body": "x"}), "Expected `object | null`, got `str`", "logs"
    ),
    _shape(
        "points as a map",
        metrics({"name": "m", "gauge": {"dataPoints": {}}}),
        "Expected `array | null`, got `object`",
        "metrics",
    ),
    _shape("a negative count", _point("histogram", count="-1"), "Expected `int` >= 0", "metrics"),
    _shape(
        "a word for a value",
        _point("gauge", asDouble="much"),
        "Expected `float | null`, got `str`",
        "metrics",
    ),
    _shape(
        "a word for a bucket", _point("histogram", bucketCounts=["x"]), "Expected `int`, got `str`", "metrics"
    ),
    Case(
        "no key",
        GOOD,
        401,
        16,
        "Send an ingest key as 'Authorization: Bearer phr_ing_…'.",
        headers={"Authorization": ""},
    ),
    Case(
        "an invented key",
        GOOD,
        401,
        16,
        "This is not an ingest key",
        headers={"Authorization": "Bearer phr_ing_" + "a" * 38},
    ),
    Case("text", GOOD, 415, 3, NOT_JSON, headers={"Content-Type": "text/plain"}),
    Case("protobuf", b"", 415, 3, NOT_JSON, headers={"Content-Type": PROTOBUF}),
    Case("no content type", GOOD, 415, 3, "The body must be application/json.", headers={"Content-Type": ""}),
    Case(
        "an unknown encoding",
        GOOD,
        415,
        3,
        "Content-Encoding 'br' is not supported",
        headers={"Content-Encoding": "br"},
    ),
    Case("no gzip data", GOOD, 400, 3, "The body is not valid gzip data.", headers=GZIP),
    Case(
        "gzip data cut short",
        gzip.compress(json.dumps(GOOD).encode())[:-9],
        400,
        3,
        "The body is not valid gzip data.",
        headers=GZIP,
    ),
    Case(
        "too large as sent",
        b" " * 3000,
        413,
        3,
        "The body is over 2000 bytes.",
        limits={"max_body_bytes": 2000},
    ),
    Case(
        "too large when decompressed",
        gzip.compress(b" " * 5000),
        413,
        3,
        "The body is over 3000 bytes when decompressed.",
        headers=GZIP,
        limits={"max_decompressed_bytes": 3000},
    ),
    Case(
        "a bomb",
        zlib.compress(b" " * 50_000_000),
        413,
        3,
        "The body is over 20971520 bytes when decompressed.",
        headers={"Content-Encoding": "deflate"},
    ),
    Case("too many records", logs(*[{}] * 50_001), 413, 3, "There are more than 50000 records.", "logs"),
    Case(
        "more objects than anybody means",
        gzip.compress(b'{"resourceLogs":[' + b",".join([b"{}"] * 1_000_001) + b"]}"),
        413,
        3,
        "The body has more than 1000000 objects.",
        "logs",
        headers=GZIP,
    ),
    Case(
        "a large resource over many records",
        LARGE_RESOURCE,
        413,
        3,
        "The attributes of resources and scopes",
        "logs",
    ),
    Case(
        "an unknown signal", GOOD, 404, 5, "OTLP is taken at v1/traces, v1/logs and v1/metrics.", "profiles"
    ),
    Case("a path below", GOOD, 404, 5, "OTLP is taken at", "traces/more"),
    Case("GET", None, 405, 12, "OTLP takes POST only.", method="GET"),
    Case("PUT", GOOD, 405, 12, "OTLP takes POST only.", method="PUT"),
]
