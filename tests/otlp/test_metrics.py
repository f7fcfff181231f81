"""Every field of all five kinds of metrics, from the request to the row."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.otlp.requests import SPAN_ID, TRACE_ID, attribute, metrics, snake
from tests.support.otlp_pipeline import OtlpPipeline

POINT: dict[str, Any] = {
    "startTimeUnixNano": "1544712600000000000",
    "timeUnixNano": "1544712660300000001",
    "attributes": [attribute("region", stringValue="eu")],
    "flags": 0,
}
EXEMPLARS = {
    "exemplars": [
        {
            "timeUnixNano": "1544712660200000000",
            "asDouble": 2.5,
            "traceId": TRACE_ID,
            "spanId": SPAN_ID,
            "filteredAttributes": [attribute("user", stringValue="7")],
        },
        {"timeUnixNano": "1544712660200000001", "asInt": "3"},
    ]
}
KINDS: dict[str, dict[str, Any]] = {
    "gauge": {"gauge": {"dataPoints": [{**POINT, **EXEMPLARS, "asInt": "-4"}]}},
    "sum": {
        "sum": {
            "dataPoints": [{**POINT, **EXEMPLARS, "asDouble": 0.5}],
            "aggregationTemporality": 2,
            "isMonotonic": True,
        }
    },
    "histogram": {
        "histogram": {
            "dataPoints": [
                {
                    **POINT,
                    **EXEMPLARS,
                    "count": "6",
                    "sum": 12.5,
                    "bucketCounts": ["1", 2, "3"],
                    "explicitBounds": [0.5, 10],
                    "min": 0.25,
                    "max": 11,
                }
            ],
            "aggregationTemporality": 1,
        }
    },
    "exponential_histogram": {
        "exponentialHistogram": {
            "dataPoints": [
                {
                    **POINT,
                    **EXEMPLARS,
                    "count": "9",
                    "sum": 7.5,
                    "scale": -2,
                    "zeroCount": "4",
                    "zeroThreshold": 0.125,
                    "positive": {"offset": -1, "bucketCounts": ["1", "2"]},
                    "negative": {"offset": 3, "bucketCounts": ["2"]},
                    "min": -5,
                    "max": 5,
                }
            ],
            "aggregationTemporality": 2,
        }
    },
    "summary": {
        "summary": {
            "dataPoints": [
                {
                    **POINT,
                    "count": "10",
                    "sum": 100,
                    "quantileValues": [{"quantile": 0.5, "value": 9}, {"quantile": 1, "value": 30.5}],
                }
            ]
        }
    },
}
EXPECTED: dict[str, dict[str, Any]] = {
    "gauge": {"Value": -4.0},
    "sum": {"Value": 0.5, "AggregationTemporality": 2, "IsMonotonic": True},
    "histogram": {
        "Count": 6,
        "Sum": 12.5,
        "BucketCounts": [1, 2, 3],
        "ExplicitBounds": [0.5, 10.0],
        "Min": 0.25,
        "Max": 11.0,
        "AggregationTemporality": 1,
    },
    "exponential_histogram": {
        "Count": 9,
        "Sum": 7.5,
        "Scale": -2,
        "ZeroCount": 4,
        "ZeroThreshold": 0.125,
        "PositiveOffset": -1,
        "PositiveBucketCounts": [1, 2],
        "NegativeOffset": 3,
        "NegativeBucketCounts": [2],
        "Min": -5.0,
        "Max": 5.0,
        "AggregationTemporality": 2,
    },
    "summary": {
        "Count": 10,
        "Sum": 100.0,
        "ValueAtQuantiles.Quantile": [0.5, 1.0],
        "ValueAtQuantiles.Value": [9.0, 30.5],
    },
}


@pytest.mark.parametrize("renamed", [False, True], ids=["camel", "snake"])
async def test_every_field_of_all_kinds_of_metrics(pipeline: OtlpPipeline, renamed: bool) -> None:
    listed = [{"name": f"m.{kind}", "description": "d", "unit": "ms", **data} for kind, data in KINDS.items()]
    body = metrics(*listed)
    of_resource = body["resourceMetrics"][0]
    of_resource["resource"] = {"attributes": [attribute("service.name", stringValue="shop")]}
    of_resource["scopeMetrics"][0]["scope"] = {"name": "library", "droppedAttributesCount": 2}
    answer = await pipeline.post("metrics", snake(body) if renamed else body)
    assert (answer.status, answer.body) == (200, b"{}")
    await pipeline.consume()
    for kind, expected in EXPECTED.items():
        (row,) = await pipeline.rows(f"otel_metrics_{kind}")
        common = {
            "MetricName": f"m.{kind}",
            "MetricDescription": "d",
            "MetricUnit": "ms",
            "ServiceName": "shop",
            "ScopeName": "library",
            "ScopeDroppedAttrCount": 2,
            "Attributes": {"region": "eu"},
            "StartTimeUnix": datetime(2018, 12, 13, 14, 50, tzinfo=UTC),
            "Flags": 0,
        }
        if kind != "summary":
            common |= {
                "Exemplars.Value": [2.5, 3.0],
                "Exemplars.TraceId": [TRACE_ID, ""],
                "Exemplars.SpanId": [SPAN_ID, ""],
                "Exemplars.FilteredAttributes": [{"user": "7"}, {}],
            }
        assert {name: row[name] for name in (*common, *expected)} == {**common, **expected}
