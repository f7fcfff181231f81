"""Parts that many records or scopes share are processed once, and not once for each record or scope.

A body of 20 KB in gzip may hold a resource of ten megabytes and a hundred thousand scopes: processed for each scope,
such a request would stop an edge or a consumer for an hour.
"""

from typing import Any

import msgspec
import pytest

from consumers.transforms.otlp.metrics import metric_rows
from consumers.transforms.otlp.shared_columns import RecordOrigin
from ingest_edge.limits import Limits
from ingest_edge.otlp import measure_json
from ingest_edge.otlp.validate_records import validate_metrics
from pipeline_contracts.otlp.logs import LogsRequest
from pipeline_contracts.otlp.metrics import (
    Gauge,
    Metric,
    MetricsRequest,
    NumberPoint,
    ResourceMetrics,
    ScopeMetrics,
)
from pipeline_contracts.otlp.records import OtlpMeta
from pipeline_contracts.otlp.traces import TracesRequest
from pipeline_contracts.settings import Settings
from tests.otlp.requests import attribute

_SCOPES = 50
_LARGE = {"attributes": [attribute("a", stringValue="a" * 10_000)]}


@pytest.mark.parametrize(
    ("type_", "signal", "records", "measure"),
    [
        (LogsRequest, "Logs", "logRecords", measure_json.shared_bytes_of_logs),
        (TracesRequest, "Spans", "spans", measure_json.shared_bytes_of_spans),
        (MetricsRequest, "Metrics", "metrics", measure_json.shared_bytes_of_points),
    ],
)
def test_a_resource_is_measured_once(
    type_: type[Any], signal: str, records: str, measure: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = {"gauge": {"dataPoints": [{}]}} if signal == "Metrics" else {}
    of_resource = {"resource": _LARGE, f"scope{signal}": [{records: [record]}] * _SCOPES}
    request = msgspec.convert({f"resource{signal}": [of_resource] * 2}, type_)
    encode, encoded = measure_json._encode, 0

    def count(value: Any) -> bytes:
        nonlocal encoded
        data = encode(value)
        encoded += len(data)
        return data

    monkeypatch.setattr(measure_json, "_encode", count)
    assert measure(request) > 2 * _SCOPES * 10_000
    assert encoded < 3 * 10_000


class _Name(str):
    written = 0

    def __repr__(self) -> str:
        self.written += 1
        return super().__repr__()


def test_name_of_a_metric_is_formatted_once_for_all_rejected_points() -> None:
    name = _Name("requests")
    metric = Metric(name=name, gauge=Gauge([NumberPoint()] * 9))
    request = MetricsRequest([ResourceMetrics(scopeMetrics=[ScopeMetrics(metrics=[metric])])])
    verdict = validate_metrics(request, 1000, Limits.from_settings(Settings()))
    assert verdict.rejections == 9
    assert verdict.reasons[0] == "data point of 'requests': it has no timeUnixNano"
    assert name.written == 1


class _CountingOrigin(RecordOrigin):
    made = 0

    def shared_columns(self, *of: Any, **how: Any) -> Any:
        self.made += 1
        return super().shared_columns(*of, **how)


def test_scopes_without_accepted_points_get_no_shared_columns() -> None:
    point = {"timeUnixNano": "1", "asInt": "1"}
    accepted, rejected = ({"gauge": {"dataPoints": [one]}} for one in (point, {}))
    scopes = [{"metrics": [rejected]}, {"metrics": [accepted, rejected]}] + [{"metrics": [{}]}] * _SCOPES
    request = msgspec.convert(
        {"resourceMetrics": [{"resource": _LARGE, "scopeMetrics": scopes}]}, MetricsRequest, strict=False
    )
    origin = _CountingOrigin(
        OtlpMeta("acc", "prj", "env", 1, 1, "json", (0, 2)), "pharos.otlp-metrics/x/0", 0
    )
    assert [(table, rows) for table, _, rows in metric_rows(request, origin)] == [
        ("pharos.otel_metrics_gauge", 1)
    ]
    assert origin.made == 1
