"""Counts the telemetry of the programs in `otel_counted/`: what their SDKs have sent is stored, each record once."""

import re
from pathlib import Path
from typing import Any

from tests.support.platform_process import PlatformProcess

COUNTED = Path(__file__).with_name("otel_counted")
_SPANS, _RECORDS, _POINTS = 200, 100, 10


def assert_counted(
    platform: PlatformProcess, service: str, *, own_spans: int = 0, own_records: int = 0
) -> None:
    """Assert that a service has exactly what one run of `otel_counted/` sends, and what the program around it sends."""
    platform.wait_until_consumed()

    def count(table: str, columns: str, condition: str = "1") -> dict[str, Any]:
        (row,) = platform.query(
            f"SELECT {columns} FROM pharos.{table} WHERE ServiceName = '{service}' AND {condition}"
        )
        return row

    spans = count(
        "otel_traces",
        "count() AS stored, uniqExact(SpanId) AS different, countIf(SpanName = 'counted') AS counted",
    )
    total = _SPANS + own_spans
    assert spans == {"stored": total, "different": total, "counted": _SPANS}, spans
    records = count(
        "otel_logs",
        "count() AS stored, uniqExact(Body) AS different, countIf(Body LIKE 'counted %' AND SpanId IN "
        "(SELECT SpanId FROM pharos.otel_traces WHERE SpanName = 'counted')) AS in_spans",
    )
    total = _RECORDS + own_records
    assert records == {"stored": total, "different": total, "in_spans": _RECORDS}, records
    points = count(
        "otel_metrics_sum",
        "count() AS stored, uniqExact(Attributes['number']) AS different, uniqExact(TimeUnix) AS collections, "
        "max(Value) AS highest, sum(Value) AS total",
        "MetricName = 'counted.orders'",
    )
    # A program that takes over a minute sends its points again: each collection has all of them.
    collections = points["collections"]
    assert collections >= 1, points
    assert points == {
        "stored": _POINTS * collections,
        "different": _POINTS,
        "collections": collections,
        "highest": _POINTS,
        "total": sum(range(1, _POINTS + 1)) * collections,
    }, points


def insert_line(program: str, before: str, line: str) -> str:
    """Return a program of a guide with a line before the one that contains `before`."""
    found = re.findall(rf"^.*{re.escape(before)}.*\n", program, re.MULTILINE)
    assert len(found) == 1, f"{before} is on {len(found)} lines"
    return program.replace(found[0], f"{line}\n{found[0]}")
