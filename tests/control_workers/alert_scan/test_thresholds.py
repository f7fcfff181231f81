"""Thresholds on services, metrics and queues, against the rows that consumers store."""

import json
from typing import Any

from sqlalchemy import delete, select

from control_domain.tables.notifications import AlertState, AlertThreshold
from tests.support.alert_scans import ScanUnderTest

_DEFAULTS: dict[str, Any] = {"window_seconds": 300, "pending_seconds": 0, "severity": "critical"}


async def _add(scan: ScanUnderTest, name: str, kind: str, target: str, **values: Any) -> str:
    """Add a threshold; return the subject of its events."""
    row = AlertThreshold(
        environment_id=scan.acme.environment.id,
        name=name,
        kind=kind,
        target=target,
        created_at=scan.now,
        **(_DEFAULTS | values),
    )
    async with scan.sessions() as session, session.begin():
        session.add(row)
        await session.flush()
        return f"threshold {row.id}"


async def _values(scan: ScanUnderTest) -> dict[str, tuple[str, float | None]]:
    """Return phase and value of each threshold by its name."""
    async with scan.sessions() as session:
        names = {f"threshold {row.id}": row.name for row in await session.scalars(select(AlertThreshold))}
        states = (await session.scalars(select(AlertState))).all()
    return {names[row.key]: (row.phase, row.value) for row in states if row.key in names}


def _requests(
    scan: ScanUnderTest, service: str, *, ago: float, errors: int, good: int, ms: float = 10
) -> list[dict[str, Any]]:
    return [
        {
            "environment_id": scan.acme.environment.public_id,
            "type": "request",
            "timestamp": scan.ago(ago),
            "received_at": scan.ago(ago),
            "service": service,
            "status_code": 500 if number < errors else 200,
            "duration_ms": ms,
        }
        for number in range(errors + good)
    ]


def _spans(scan: ScanUnderTest, service: str, *, ago: float, count: int, ms: float) -> list[dict[str, Any]]:
    return [
        {
            "EnvironmentId": scan.acme.environment.public_id,
            "Timestamp": scan.ago(ago),
            "ReceivedAt": scan.ago(ago),
            "SpanKind": "Server",
            "ServiceName": service,
            "StatusCode": "Error" if number == 0 else "Ok",
            "Duration": int(ms * 1e6),
        }
        for number in range(count)
    ]


def _points(
    scan: ScanUnderTest, metric: str, *values: tuple[float, float], **members: Any
) -> list[dict[str, Any]]:
    """Return data points: seconds before now, and value."""
    return [
        {
            "EnvironmentId": scan.acme.environment.public_id,
            "MetricName": metric,
            "ServiceName": "api",
            "StartTimeUnix": scan.ago(86_400),
            "TimeUnix": scan.ago(ago),
            "ReceivedAt": scan.ago(ago),
            "Value": value,
            **members,
        }
        for ago, value in values
    ]


async def test_error_rate_and_latency(scan: ScanUnderTest) -> None:
    rate = await _add(scan, "errors", "service.error_rate", "api", threshold=5, recovery=2)
    slow = await _add(scan, "slow", "service.latency", "worker", threshold=500, recovery=250)
    await _add(scan, "one minute", "service.error_rate", "api", threshold=5, recovery=2, window_seconds=60)
    await _add(scan, "other service", "service.error_rate", "cron", threshold=5, recovery=2)
    await _add(scan, "off", "service.error_rate", "api", threshold=5, recovery=2, enabled=False)
    await scan.insert(
        "telemetry_events",
        *_requests(scan, "api", ago=100, errors=10, good=80),
        # Not within the window.
        *_requests(scan, "api", ago=301, errors=1000, good=0),
        *_requests(scan, "api", ago=30, errors=0, good=10),
        *_requests(scan, "worker", ago=30, errors=0, good=90, ms=20),
    )
    await scan.insert("otel_traces", *_spans(scan, "worker", ago=30, count=10, ms=1000))
    events = await scan.run_for_events()
    assert [(event.subject, event.kind, event.state) for event in events] == [
        (rate, "service.error_rate", "firing"),
        (slow, "service.latency", "firing"),
    ]
    facts = json.loads(events[0].facts)
    assert {"value": 10.0, "threshold": 5, "target": "api", "unit": "%", "severity": "critical"}.items() <= (
        facts.items()
    )
    values = await _values(scan)
    assert values["errors"] == ("firing", 10.0)
    assert values["slow"][1] is not None and 900 < values["slow"][1] < 1100
    assert values["one minute"] == ("ok", 0.0)
    assert values["other service"] == ("ok", None)
    assert "off" not in values

    # Neither a failing query nor missing data ends the alert; the recovery value does.
    scan.store.failing = ("pharos.otel_traces",)
    assert await scan.run(300) == []
    scan.store.failing = ()
    assert await scan.run(300) == []
    await scan.insert("telemetry_events", *_requests(scan, "api", ago=5, errors=1, good=24))
    # The scan has paused, so at first it is unknown whether data is missing.
    for _ in range(2):
        assert [kind for kind, *_ in await scan.run(60) if kind != "platform.blind"] == []
    assert (await _values(scan))["errors"] == ("firing", 4.0)
    await scan.insert("telemetry_events", *_requests(scan, "api", ago=5, errors=0, good=25))
    assert await scan.run() == [("service.error_rate", rate, "resolved")]


async def test_metrics(scan: ScanUnderTest) -> None:
    for name, aggregation, values in (
        ("avg", "avg", {}),
        ("min", "min", {}),
        ("max", "max", {}),
        ("sum", "sum", {}),
        ("last", "last", {}),
        ("of api", "max", {"service": "api"}),
        ("last minute", "max", {"window_seconds": 60}),
    ):
        await _add(
            scan,
            name,
            "metric.value",
            "depth",
            aggregation=aggregation,
            threshold=1e9,
            recovery=1,
            **(values),
        )
    for aggregation in ("sum", "avg", "max", "last"):
        await _add(
            scan,
            f"counter {aggregation}",
            "metric.value",
            "hits",
            aggregation=aggregation,
            threshold=1e9,
            recovery=1,
        )
    below = await _add(
        scan, "event", "metric.value", "temperature", is_above=False, threshold=10, recovery=12
    )
    await scan.insert(
        "otel_metrics_gauge",
        *_points(scan, "depth", (250, 6), (100, 2), (10, 4)),
        *_points(scan, "depth", (50, 8), (301, 100), ServiceName="worker"),
    )
    # Increases of 10, 4 after a reset, and 6; another series of delta points.
    cumulative = _points(
        scan,
        "hits",
        (400, 90),
        (200, 100),
        (130, 4),
        (30, 10),
        IsMonotonic=True,
        AggregationTemporality=2,
    )
    delta = _points(
        scan, "hits", (40, 5), AggregationTemporality=1, IsMonotonic=True, Attributes={"host": "b"}
    )
    await scan.insert("otel_metrics_sum", *cumulative, *delta)
    await scan.insert(
        "telemetry_events",
        {
            "environment_id": scan.acme.environment.public_id,
            "type": "metric",
            "name": "temperature",
            "timestamp": scan.ago(20),
            "received_at": scan.ago(20),
            "payload": '{"value": 3.5}',
        },
    )
    assert await scan.run() == [("metric.value", below, "firing")]
    assert {name: value for name, (_, value) in (await _values(scan)).items()} == {
        "avg": 5.0,
        "min": 2.0,
        "max": 8.0,
        "sum": 20.0,
        "last": 4.0,
        "of api": 6.0,
        "last minute": 8.0,
        "counter sum": 25.0,
        "counter avg": 5.0,
        "counter max": 11.0,
        "counter last": 11.0,
        "event": 3.5,
    }

    async with scan.sessions() as session, session.begin():
        await session.execute(delete(AlertThreshold))
    # The threshold was removed.
    assert await scan.run(30) == [("metric.value", below, "resolved")]
