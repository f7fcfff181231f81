"""After an outage of Pharos, the missing data of that time neither fires nor resolves an alert."""

from datetime import timedelta
from typing import Any

from sqlalchemy import delete

from control_domain.tables.monitors import MonitorProgress, Queue, QueueState
from pipeline_contracts.times import to_epoch_ms
from storage_backends.monitor_states.interface import BLIND_CLOCK
from tests.control_workers.alert_scan.test_queues import _add_queue, _apply_through, _report, _report_worker
from tests.control_workers.alert_scan.test_thresholds import _add, _points
from tests.support.alert_scans import ScanUnderTest


async def _end_outage(scan: ScanUnderTest, minutes: float) -> None:
    """Let time pass while no edge receives data."""
    scan.now += timedelta(minutes=minutes)
    row = MonitorProgress(topic=BLIND_CLOCK, partition=0, applied_through_ms=to_epoch_ms(scan.now))
    async with scan.sessions() as session, session.begin():
        await session.merge(row)


async def _keep_scanning(scan: ScanUnderTest, minutes: int, *points: str) -> list[Any]:
    """Scan each minute, with a point of 10 of these metrics; return the events."""
    found = []
    for _ in range(minutes):
        scan.now += timedelta(minutes=1)
        for metric in points:
            await scan.insert("otel_metrics_sum", *_increases(scan, metric, 1))
        found += [event for event in await scan.run() if not event[0].startswith("platform.")]
    return found


def _increases(scan: ScanUnderTest, metric: str, *ago: float) -> list[dict[str, Any]]:
    return _points(scan, metric, *((each, 10.0) for each in ago), AggregationTemporality=1, IsMonotonic=True)


async def test_sums(scan: ScanUnderTest) -> None:
    await _add(
        scan,
        "few",
        "metric.value",
        "orders",
        aggregation="sum",
        is_above=False,
        threshold=40,
        recovery=45,
        window_seconds=600,
    )
    many = await _add(
        scan,
        "many",
        "metric.value",
        "errors",
        aggregation="sum",
        threshold=40,
        recovery=35,
        window_seconds=600,
    )
    for metric in ("orders", "errors"):
        await scan.insert("otel_metrics_sum", *_increases(scan, metric, *range(1, 600, 60)))
    assert await scan.run() == [("metric.value", many, "firing")]
    await _end_outage(scan, 60)
    assert await _keep_scanning(scan, 8, "orders", "errors") == []
    # The whole window is after the outage, and nothing has changed.
    assert await _keep_scanning(scan, 4, "orders", "errors") == []
    # With a lag, the present data is unknown too.
    await _apply_through(scan, 0)
    assert await _keep_scanning(scan, 8) == []


async def test_workers(scan: ScanUnderTest) -> None:
    queue = await _add_queue(scan, "mail")
    for worker in ("steady", "late", "lost"):
        await _report_worker(scan, queue, worker)
    await _report(scan, queue, wait=1)
    await _apply_through(scan, 0)
    assert await scan.run() == []
    await _end_outage(scan, 20)
    found = []
    for minute in range(7):
        scan.now += timedelta(minutes=1)
        await _report_worker(scan, queue, "steady")
        if minute == 3:
            await _report_worker(scan, queue, "late")
        await _apply_through(scan, 0)
        found += [subject for kind, subject, _ in await scan.run() if kind == "queue.worker_lost"]
    assert found == [f"worker {queue} lost"]
    # A second outage ends nothing.
    await _end_outage(scan, 20)
    await _apply_through(scan, 0)
    assert [kind for kind, *_ in await scan.run() if kind == "queue.worker_lost"] == []


async def test_a_queue_that_is_removed(scan: ScanUnderTest) -> None:
    queue = await _add_queue(scan, "mail")
    await _report(scan, queue, wait=1, pending=50)
    subject = await _add(scan, "size", "queue.size", "mail", threshold=10, recovery=5)
    assert await scan.run() == [("queue.size", subject, "firing")]
    async with scan.sessions() as session, session.begin():
        await session.execute(delete(QueueState).where(QueueState.queue_id == queue))
        await session.execute(delete(Queue).where(Queue.id == queue))
    assert await scan.run(30) == [("queue.size", subject, "resolved")]
    assert await scan.run(30) == []
