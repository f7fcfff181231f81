"""Writes spans, log records and data points as the JSON of OTLP/HTTP."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_SCOPE = {"name": "demo"}


def attribute(key: str, value: str | int) -> dict[str, Any]:
    """Return an attribute with a text or a whole number."""
    if isinstance(value, str):
        return {"key": key, "value": {"stringValue": value}}
    return {"key": key, "value": {"intValue": str(value)}}


def texts(pairs: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return attributes with text values."""
    return [{"key": key, "value": {"stringValue": value}} for key, value in pairs]


def write_traces(spans: Mapping[str, Sequence[Any]], version: str) -> dict[str, Any]:
    """Return the body of `/v1/otlp/v1/traces`; `spans` maps services to their spans."""
    return {"resourceSpans": _write(spans, version, "scopeSpans", "spans")}


def write_logs(records: Mapping[str, Sequence[Any]], version: str) -> dict[str, Any]:
    """Return the body of `/v1/otlp/v1/logs`; `records` maps services to their records."""
    return {"resourceLogs": _write(records, version, "scopeLogs", "logRecords")}


def write_metrics(metrics: Mapping[str, Sequence[Any]], version: str) -> dict[str, Any]:
    """Return the body of `/v1/otlp/v1/metrics`; `metrics` maps services to their metrics."""
    return {"resourceMetrics": _write(metrics, version, "scopeMetrics", "metrics")}


def _write(by_service: Mapping[str, Sequence[Any]], version: str, scopes: str, members: str) -> list[Any]:
    return [
        {
            "resource": {
                "attributes": texts(
                    (
                        ("service.name", service),
                        ("service.version", version),
                        ("deployment.environment.name", "production"),
                    )
                )
            },
            scopes: [{"scope": _SCOPE, members: of_service}],
        }
        for service, of_service in by_service.items()
    ]
