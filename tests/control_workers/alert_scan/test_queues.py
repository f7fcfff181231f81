"""Queues whose jobs wait, and workers that are lost."""

import json
import uuid
from datetime import timedelta

import pytest
from sqlalchemy import update

from control_domain.monitors.operations import create_queue
from control_domain.tables.monitors import MonitorProgress, QueueState, QueueWorker
from control_domain.tables.notifications import AlertThreshold
from pipeline_contracts import topics
from pipeline_contracts.times import to_epoch_ms
from tests.support.alert_scans import ScanUnderTest


async def _add_queue(scan: ScanUnderTest, name: str) -> int:
    async with scan.sessions() as session, session.begin():
        return (await create_queue(session, scan.acme.environment, name, scan.now)).id


async def _report(scan: ScanUnderTest, queue: int, *, wait: int | None, pending: int = 3) -> None:
    """Store a snapshot that is received now."""
    row = QueueState(
        queue_id=queue,
        snapshot_id=str(uuid.uuid4()),
        observed_us=to_epoch_ms(scan.now) * 1000,
        received_ms=to_epoch_ms(scan.now),
        pending=pending,
        oldest_wait_seconds=wait,
    )
    async with scan.sessions() as session, session.begin():
        await session.merge(row)


async def _report_worker(scan: ScanUnderTest, queue: int, worker: str, status: str = "busy") -> None:
    row = QueueWorker(
        queue_id=queue, worker_id=worker, sequence=1, status=status, received_ms=to_epoch_ms(scan.now)
    )
    async with scan.sessions() as session, session.begin():
        await session.merge(row)


async def _apply_through(scan: ScanUnderTest, seconds_ago: float) -> None:
    """Set the time up to which reports of queues are applied."""
    through_ms = to_epoch_ms(scan.now - timedelta(seconds=seconds_ago))
    row = MonitorProgress(topic=topics.QUEUES, partition=0, applied_through_ms=through_ms)
    async with scan.sessions() as session, session.begin():
        await session.merge(row)


async def test_the_wait_without_configuration(scan: ScanUnderTest) -> None:
    mail = await _add_queue(scan, "mail")
    quiet = await _add_queue(scan, "quiet")
    await _report(scan, quiet, wait=600)
    await _report(scan, mail, wait=601)
    (event,) = await scan.run_for_events()
    assert (event.kind, event.subject, event.state) == ("queue.wait", f"wait {mail}", "firing")
    assert (event.environment_id, event.project_id) == (scan.acme.environment.id, scan.acme.project.id)
    assert json.loads(event.facts)["value"] == 601

    # Below the threshold, but not recovered.
    await _report(scan, mail, wait=400)
    assert await scan.run(30) == []
    # Without a report the state is unknown.
    assert await scan.run(3600) == []
    await _report(scan, mail, wait=None, pending=0)
    assert await scan.run(30) == [("queue.wait", f"wait {mail}", "resolved")]


@pytest.mark.both_databases
async def test_a_threshold_replaces_the_condition_that_is_built_in(scan: ScanUnderTest) -> None:
    mail = await _add_queue(scan, "mail")
    await _report(scan, mail, wait=700, pending=50)
    assert await scan.run() == [("queue.wait", f"wait {mail}", "firing")]
    values = {"window_seconds": 60, "pending_seconds": 60, "severity": "warning", "created_at": scan.now}
    wait = AlertThreshold(
        environment_id=scan.acme.environment.id,
        name="wait",
        kind="queue.wait",
        target="mail",
        threshold=1000,
        recovery=1000,
        enabled=False,
        **values,
    )
    size = AlertThreshold(
        environment_id=scan.acme.environment.id,
        name="size",
        kind="queue.size",
        target="mail",
        threshold=10,
        recovery=5,
        **values,
    )
    async with scan.sessions() as session, session.begin():
        session.add_all([wait, size])
    # The built-in condition ends, even if the threshold is disabled. The threshold waits for its pending time.
    assert await scan.run(30) == [("queue.wait", f"wait {mail}", "resolved")]
    assert await scan.run(30) == []
    assert await scan.run(30) == [("queue.size", f"threshold {size.id}", "firing")]
    await _report(scan, mail, wait=700, pending=5)
    assert await scan.run(30) == [("queue.size", f"threshold {size.id}", "resolved")]
    async with scan.sessions() as session, session.begin():
        await session.execute(update(AlertThreshold).values(enabled=True))
    assert await scan.run(30) == []


@pytest.mark.both_databases
async def test_lost_workers(scan: ScanUnderTest) -> None:
    mail, idle = await _add_queue(scan, "mail"), await _add_queue(scan, "idle")
    for worker, status in (("lost", "busy"), ("stopped", "stopped"), ("steady", "idle")):
        await _report_worker(scan, mail, worker, status)
    # No further worker of this queue is reported.
    await _report_worker(scan, idle, "with its queue")
    assert await scan.run() == []
    for _ in range(5):
        assert await scan.run(60) == []
    scan.now += timedelta(seconds=10)
    await _report_worker(scan, mail, "steady", "idle")
    # With a backlog of the pipeline no worker is lost.
    await _apply_through(scan, 60)
    assert await scan.run() == []
    await _apply_through(scan, 0)
    subject = f"worker {mail} lost"
    assert await scan.run() == [("queue.worker_lost", subject, "firing")]
    scan.now += timedelta(seconds=310)
    assert await scan.run() == []
    await _report_worker(scan, mail, "lost", "stopped")
    await _apply_through(scan, 0)
    (event,) = [event for event in await scan.run_for_events() if event.subject == subject]
    assert (event.kind, event.state, json.loads(event.facts)["reason"]) == (
        "queue.worker_lost",
        "resolved",
        "stopped",
    )
