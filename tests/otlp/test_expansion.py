"""The measured size of the rows is never below their actual size, and not far above."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from consumers.transforms.otlp.shared_columns import RecordOrigin
from consumers.transforms.otlp.topic import OtlpTopic, logs_topic, metrics_topic, traces_topic
from ingest_edge.limits import Limits
from ingest_edge.otlp import protobuf
from pipeline_contracts.errors import PayloadTooLarge
from pipeline_contracts.otlp.records import OtlpMeta
from pipeline_contracts.settings import Settings
from tests.hostile.expanding_bodies import BODIES
from tests.otlp.requests import SPAN_ID, TRACE_ID, attribute, logs, metrics, nested, span, traces
from tests.support.otlp_pipeline import validate_json_body

_TOPICS: dict[str, Callable[[], OtlpTopic]] = {
    "traces": traces_topic,
    "logs": logs_topic,
    "metrics": metrics_topic,
}
_SHARING = {
    "attributes": [
        attribute("service.name", stringValue='checkout "1"'),
        attribute("list", arrayValue={"values": [{"stringValue": '"\\\n\x01'}, {}, {"intValue": "5"}]}),
        attribute("ø", doubleValue=1e20),
    ]
}
_POINT = {"timeUnixNano": "1", "attributes": [attribute("a", boolValue=True)]}
_EXEMPLARS = {"exemplars": [{}, {"asDouble": 0.1, "spanId": SPAN_ID, "traceId": TRACE_ID}]}
_VARIED = {
    "logs": logs(*[{}, {"body": nested(3)}, {"body": {"stringValue": "\x00" * 90}, "severityText": '"'}] * 9),
    "traces": traces(*[span(), span(events=[{}] * 30, links=[{}] * 30, parentSpanId=SPAN_ID)] * 9),
    "metrics": metrics(
        {
            "name": '"',
            "description": "\x01ø",
            "unit": "ms",
            "gauge": {"dataPoints": [{**_POINT, "asInt": "1"}] * 9},
        },
        {"sum": {"dataPoints": [{**_POINT, **_EXEMPLARS, "asDouble": 1e300}], "isMonotonic": True}},
        {
            "name": "h",
            "histogram": {
                "dataPoints": [
                    {
                        **_POINT,
                        **_EXEMPLARS,
                        "count": "1",
                        "explicitBounds": [1e15] * 99,
                        "bucketCounts": ["0"] * 99,
                    }
                ]
            },
        },
        {
            "exponentialHistogram": {
                "dataPoints": [{**_POINT, "count": "1", "positive": {"bucketCounts": ["77"] * 200}}]
            }
        },
        {"summary": {"dataPoints": [{**_POINT, "count": "1", "quantileValues": [{}] * 20}]}},
    ),
}


def _with_shared(signal: str, body: Any) -> Any:
    (of_resource,) = body[f"resource{'Spans' if signal == 'traces' else signal.capitalize()}"]
    return {
        f"resource{'Spans' if signal == 'traces' else signal.capitalize()}": [
            {**of_resource, "resource": _SHARING, "schemaUrl": '"' * 50},
            {**of_resource, "schemaUrl": "x"},
        ]
    }


def _in_protobuf(signal: str, body: Any) -> bytes:
    from loadtests.bench.otlp_payloads import _MESSAGES, ParseDict, _with_base64

    data: bytes = ParseDict(_with_base64(body), _MESSAGES[signal]()).SerializeToString()
    return data


def _rows(signal: str, coding: Any, body: bytes) -> tuple[int, int]:
    """Return (bytes, number) of the rows that the consumer builds."""
    topic = _TOPICS[signal]()
    meta = OtlpMeta("acc", "prj", "env_" + "e" * 26, 1_790_000_000_000, 1, coding)
    origin = RecordOrigin(meta, f"pharos.otlp-{signal}/{'x' * 36}/1000", 10**12)
    made = [(len(lines), rows) for _, lines, rows in topic._rows(topic._request(meta, body), origin)]
    return sum(size for size, _ in made), sum(rows for _, rows in made)


def _refuses(signal: str, coding: str, body: bytes, limit: int) -> bool:
    # The limit of the body is above that of its records.
    limits = Limits.from_settings(Settings(max_expanded_bytes=max(limit, 2**20)))
    object.__setattr__(limits, "expanded_bytes", limit)
    try:
        if coding == "json":
            validate_json_body(signal, body, limits)
        else:
            protobuf.validate(f"v1/{signal}", body, limits)
    except PayloadTooLarge as error:
        assert f"the limit is {limit}" in error.detail
        return True
    return False


@pytest.mark.parametrize("coding", ["json", "protobuf"])
@pytest.mark.parametrize("signal", _VARIED)
def test_measured_size_is_a_close_upper_bound_of_the_rows(signal: str, coding: str) -> None:
    document = _with_shared(signal, _VARIED[signal])
    body = json.dumps(document).encode() if coding == "json" else _in_protobuf(signal, document)
    size, _ = _rows(signal, coding, body)
    assert _refuses(signal, coding, body, size - 1)
    assert not _refuses(signal, coding, body, 4 * size)


@pytest.mark.parametrize(
    ("name", "coding"),
    [
        (name, coding)
        for name, body in BODIES.items()
        for coding in ("json", "protobuf")
        if getattr(body, coding) is not None
    ],
)
def test_bodies_that_expand_are_refused(name: str, coding: str) -> None:
    """A tenth of an attack, with a tenth of the limit."""
    body = BODIES[name]
    data = getattr(body, coding)(0.1)
    limit = 64 * 2**20 // 10
    size, _ = _rows(body.signal, coding, data)
    assert size / len(data) > 3
    assert _refuses(body.signal, coding, data, limit)
