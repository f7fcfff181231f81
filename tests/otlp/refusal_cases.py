"""Malformed requests, and the response to each."""

import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.otlp.requests import attribute, logs, metrics, span, traces
from tests.support.otlp_pipeline import PROTOBUF

GZIP = {"Content-Encoding": "gzip"}


@dataclass(frozen=True, slots=True)
class Case:
    """A request and its expected response."""

    name: str
    body: Any
    status: int
    code: int
    message: str
    """The beginning of the expected message."""
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
            "scopeLogs": [{"logRecords": [{}] * 1200}],
        }
    ]
}


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
        json.dumps(traces(span(attributes=[attribute("a", stringValue="x")])))
        .replace('{"stringValue": "x"}', '{"arrayValue":{"values":[' * 400 + "]}}" * 400)
        .encode(),
        400,
        3,
        "The body is nested too deeply.",
    ),
    Case(
        "invalid numbers",
        b'{"resourceSpans":[{"x":NaN}]}',
        400,
        3,
        "The body is not valid JSON: JSON is malformed: invalid character",
    ),
    _shape(
        "no object for a resource, and no record",
        {"resourceSpans": [{"resource": 5}]},
        "Expected `object | null`",
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
    _shape(
        "points as a map",
        metrics({"name": "m", "gauge": {"dataPoints": {}}}),
        "Expected `array | null`, got `object`",
        "metrics",
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
        "far too many objects",
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
        "The request would become rows of up to 72",
        "logs",
    ),
    Case(
        "an unknown signal",
        GOOD,
        404,
        5,
        "OTLP is accepted at v1/traces, v1/logs and v1/metrics.",
        "profiles",
    ),
    Case("a path below", GOOD, 404, 5, "OTLP is accepted at", "traces/more"),
    Case("GET", None, 405, 12, "OTLP takes POST only.", method="GET"),
    Case("PUT", GOOD, 405, 12, "OTLP takes POST only.", method="PUT"),
]
