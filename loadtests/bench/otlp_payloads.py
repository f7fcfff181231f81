"""Makes OTLP bodies, as the HTTP instrumentation of SDKs sends them, in JSON and in protobuf."""

import base64
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

RECORDS = 100
"""Number of spans, log records or data points in each request."""

_SERVICES = ("checkout", "catalog", "accounts")
_ROUTES = ("/orders/{id}", "/orders", "/products/{slug}", "/cart/items")
_IDS = ("traceId", "spanId", "parentSpanId")
_MESSAGES: Mapping[str, Any] = {
    "traces": ExportTraceServiceRequest,
    "logs": ExportLogsServiceRequest,
    "metrics": ExportMetricsServiceRequest,
}


def otlp_bodies(signal: str, coding: str, count: int, seed: int = 1) -> list[bytes]:
    """Return `count` different bodies of `RECORDS` records each. `signal`: traces, logs or metrics. `coding`:
    json or protobuf."""
    chance = random.Random(seed)
    now = time.time_ns()
    documents = [_DOCUMENTS[signal](chance, now) for _ in range(count)]
    if coding == "json":
        return [orjson.dumps(document) for document in documents]
    return [ParseDict(_with_base64(d), _MESSAGES[signal]()).SerializeToString() for d in documents]


def _with_base64(value: Any) -> Any:
    # The JSON mapping of protobuf writes IDs in base64. OTLP writes them in hexadecimal.
    if isinstance(value, dict):
        return {
            name: base64.b64encode(bytes.fromhex(member)).decode() if name in _IDS else _with_base64(member)
            for name, member in value.items()
        }
    return [_with_base64(member) for member in value] if isinstance(value, list) else value


def _attributes(**values: str | int | float) -> list[dict[str, Any]]:
    return [
        {
            "key": name.replace("__", "."),
            "value": {"stringValue": value}
            if isinstance(value, str)
            else {"intValue": str(value)}
            if isinstance(value, int)
            else {"doubleValue": value},
        }
        for name, value in values.items()
    ]


def _resource(chance: random.Random) -> dict[str, Any]:
    service = chance.choice(_SERVICES)
    return {
        "attributes": _attributes(
            service__name=service,
            service__version=f"2026.11.{chance.randrange(9)}",
            service__instance__id=chance.randbytes(16).hex(),
            host__name=f"{service}-{chance.randrange(40):02d}",
            telemetry__sdk__language="nodejs",
            telemetry__sdk__name="opentelemetry",
        )
    }


_SCOPE = {"name": "@opentelemetry/instrumentation-http", "version": "0.57.0"}


def _traces(chance: random.Random, now: int) -> dict[str, Any]:
    spans = [_span(chance, now) for _ in range(RECORDS)]
    return {
        "resourceSpans": [{"resource": _resource(chance), "scopeSpans": [{"scope": _SCOPE, "spans": spans}]}]
    }


def _span(chance: random.Random, now: int) -> dict[str, Any]:
    route = chance.choice(_ROUTES)
    status = chance.choice((200, 200, 200, 201, 304, 404, 500))
    start = now - chance.randrange(60 * 10**9)
    span = {
        "traceId": chance.randbytes(16).hex(),
        "spanId": chance.randbytes(8).hex(),
        "parentSpanId": chance.randbytes(8).hex(),
        "flags": 257,
        "name": f"GET {route}",
        "kind": 2,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + int(chance.lognormvariate(16, 1))),
        "attributes": _attributes(
            http__request__method="GET",
            url__path=f"/orders/{chance.randrange(10**7)}",
            http__route=route,
            http__response__status_code=status,
            server__address="shop.example.com",
            server__port=443,
            client__address=f"203.0.113.{chance.randrange(256)}",
            user_agent__original="Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
            network__protocol__version="1.1",
        ),
        "droppedAttributesCount": 0,
        "status": {"code": 2 if status == 500 else 0},
    }
    if status == 500:
        span["events"] = [
            {
                "timeUnixNano": str(start + 1000),
                "name": "exception",
                "attributes": _attributes(
                    exception__type="TimeoutError",
                    exception__message=f"no answer from pool {chance.randrange(9)}",
                ),
            }
        ]
    return span


def _logs(chance: random.Random, now: int) -> dict[str, Any]:
    records = [_log(chance, now) for _ in range(RECORDS)]
    return {
        "resourceLogs": [
            {"resource": _resource(chance), "scopeLogs": [{"scope": _SCOPE, "logRecords": records}]}
        ]
    }


def _log(chance: random.Random, now: int) -> dict[str, Any]:
    at = str(now - chance.randrange(60 * 10**9))
    return {
        "timeUnixNano": at,
        "observedTimeUnixNano": at,
        "severityNumber": chance.choice((5, 9, 9, 13, 17)),
        "severityText": "INFO",
        "body": {"stringValue": f"Order {chance.randrange(10**7)} was handed to the carrier"},
        "attributes": _attributes(
            order__id=chance.randrange(10**7),
            code__function="hand_over",
            code__lineno=chance.randrange(500),
            thread__name="worker-3",
        ),
        "flags": 1,
        "traceId": chance.randbytes(16).hex(),
        "spanId": chance.randbytes(8).hex(),
    }


def _metrics(chance: random.Random, now: int) -> dict[str, Any]:
    metrics = []
    for number in range(10):
        points = [_point(chance, now, number % 2 == 0) for _ in range(RECORDS // 10)]
        name = f"http.server.metric.{number}"
        if number % 2:
            kind: dict[str, Any] = {"sum": {"dataPoints": points, "aggregationTemporality": 2}}
        else:
            kind = {"histogram": {"dataPoints": points, "aggregationTemporality": 2}}
        metrics.append({"name": name, "description": "Made for the benchmark", "unit": "ms", **kind})
    return {
        "resourceMetrics": [
            {"resource": _resource(chance), "scopeMetrics": [{"scope": _SCOPE, "metrics": metrics}]}
        ]
    }


def _point(chance: random.Random, now: int, histogram: bool) -> dict[str, Any]:
    point: dict[str, Any] = {
        "attributes": _attributes(
            http__route=chance.choice(_ROUTES),
            http__request__method="GET",
            http__response__status_code=chance.choice((200, 404, 500)),
        ),
        "startTimeUnixNano": str(now - 3600 * 10**9),
        "timeUnixNano": str(now),
    }
    if not histogram:
        return {**point, "asInt": str(chance.randrange(10**6))}
    counts = [chance.randrange(100) for _ in range(11)]
    bounds = [5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1000.0]
    return {
        **point,
        "count": str(sum(counts)),
        "sum": round(chance.lognormvariate(8, 1), 3),
        "min": 0.5,
        "max": 1200.0,
        "bucketCounts": [str(count) for count in counts],
        "explicitBounds": bounds,
    }


_DOCUMENTS: Mapping[str, Callable[[random.Random, int], dict[str, Any]]] = {
    "traces": _traces,
    "logs": _logs,
    "metrics": _metrics,
}


def average_record_bytes(bodies: Sequence[bytes]) -> float:
    """Return the average number of bytes per record."""
    return sum(map(len, bodies)) / len(bodies) / RECORDS
