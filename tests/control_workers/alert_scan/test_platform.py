"""Conditions of Pharos itself, outages of the scan and of the column store, and the lease."""

import asyncio
import json
import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from control_domain.alert_events import record_alert_event
from control_domain.tables.monitors import MonitorProgress
from control_domain.tables.notifications import AlertEvent
from control_workers.alert_scan.run_periodically import running_alert_scan
from control_workers.alert_scan.scan import AlertScan
from pipeline_contracts import topics
from pipeline_contracts.times import to_epoch_ms
from storage_backends.event_log.sqlite import open_sqlite_log
from storage_backends.event_log.sqlite_writer import Bounds
from tests.support.alert_scans import ScanUnderTest


def _blind(events: list[AlertEvent]) -> list[tuple[str, str, str, float]]:
    found = []
    for event in events:
        assert event.kind == "platform.blind"
        facts = json.loads(event.facts)
        found.append((event.subject, event.state, facts["what"], (facts["to_ms"] - facts["from_ms"]) / 1000))
    return found


async def test_outage_of_the_column_store_is_one_message(scan: ScanUnderTest) -> None:
    assert await scan.run() == []
    scan.store.failing = ("",)
    for _ in range(10):
        assert await scan.run(30) == []
    scan.store.failing = ()
    # The scan waits, because another scan may report the same outage.
    assert await scan.run(30) == []
    assert await scan.run(30) == []
    assert _blind(list(await scan.run_for_events(30))) == [("blind", "info", "column store", 300.0)]
    assert await scan.run(30) == []
    # A short outage is not reported.
    scan.store.failing = ("",)
    assert await scan.run(30) == []
    scan.store.failing = ()
    for _ in range(4):
        assert await scan.run(30) == []


async def test_outage_of_pharos_is_one_message(scan: ScanUnderTest) -> None:
    await scan.run()
    # The outage begins with the column store, and continues after the start.
    scan.store.failing = ("",)
    assert await scan.run(30) == []
    assert await scan.run(3600) == []
    scan.store.failing = ()
    assert await scan.run(30) == []
    assert _blind(list(await scan.run_for_events(60))) == [("blind", "info", "column store", 3630.0)]


@pytest.mark.both_databases
async def test_outage_reported_by_the_heartbeat_scan_is_not_repeated(scan: ScanUnderTest) -> None:
    await scan.run()
    before = scan.now
    await scan.run(7200)
    facts = {"from_ms": to_epoch_ms(before) + 25_000, "to_ms": to_epoch_ms(scan.now) + 2000}
    async with scan.sessions() as session, session.begin():
        record_alert_event(
            session, "platform.blind", "blind", "info", scan.now, account_id=scan.acme.account.id, facts=facts
        )
    (event,) = await scan.run_for_events(90)
    assert json.loads(event.facts) == facts


async def test_the_lag_of_consumers(scan: ScanUnderTest) -> None:
    async def apply_through(seconds_ago: float) -> None:
        through_ms = to_epoch_ms(scan.now - timedelta(seconds=seconds_ago))
        row = MonitorProgress(topic=topics.HEARTBEATS, partition=0, applied_through_ms=through_ms)
        async with scan.sessions() as session, session.begin():
            await session.merge(row)

    await apply_through(1)
    assert await scan.run() == []
    # After a start they catch up within the pending time.
    assert await scan.run(150) == []
    await apply_through(1)
    assert await scan.run(30) == []
    assert await scan.run(130) == []
    assert await scan.run(30) == []
    (event,) = await scan.run_for_events(30)
    assert (event.kind, event.subject, event.state) == ("platform.consumer_lag", "lag", "firing")
    assert (event.account_id, event.project_id) == (scan.acme.account.id, None)
    assert json.loads(event.facts)["value"] == 221.0
    await apply_through(20)
    assert await scan.run(5) == [("platform.consumer_lag", "lag", "resolved")]


async def test_disks(scan: ScanUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = 20
    usage = type(shutil.disk_usage(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(100, 100 - free, free))
    scan.scan = AlertScan(scan.sessions, scan.store, tmp_path, clock=lambda: scan.now)
    seen = []
    for free in (20, 9, 12, 15):  # noqa: B007
        seen.append(await scan.run(30))
    assert seen == [
        [],
        [("platform.disk", "disk data folder", "firing")],
        [],
        [("platform.disk", "disk data folder", "resolved")],
    ]


async def test_failed_scheduled_backups(scan: ScanUnderTest, tmp_path: Path) -> None:
    scan.scan = AlertScan(scan.sessions, scan.store, tmp_path, clock=lambda: scan.now)
    seen = []
    attempts = (
        ("schedule", None),
        ("command", "full"),
        ("schedule", "full"),
        ("command", "full"),
        ("command", None),
    )
    for source, error in attempts:
        (tmp_path / "last-backup.json").write_text(
            json.dumps({"source": source, "error": error, "folder": "/b"})
        )
        seen.append([event for event in await scan.run(30) if event[0] == "platform.backup"])
    assert seen == [
        [],
        [],
        [("platform.backup", "backup", "firing")],
        [],
        [("platform.backup", "backup", "resolved")],
    ]


async def test_dead_letters_of_telemetry(scan: ScanUnderTest) -> None:
    def receipt(outcome: str) -> dict[str, object]:
        return {
            "receipt_id": f"{scan.acme.environment.public_id} {outcome}",
            "environment_id": scan.acme.environment.public_id,
            "outcome": outcome,
            "received_at": scan.ago(1),
        }

    scan.store.has_receipts = True
    await scan.insert("ingest_receipts", receipt("stored"))
    before = await scan.run()
    await scan.insert("ingest_receipts", receipt("failed"))
    after = await scan.run(30)
    # Tests before this one may have stored others.
    assert [*before, *after] == [("platform.dead_letters", "dead letters", "firing")]


@pytest.mark.both_databases
async def test_one_of_two_control_planes_scans(scan: ScanUnderTest) -> None:
    await scan.run()
    other = AlertScan(scan.sessions, scan.store, clock=lambda: scan.now)
    assert not await other.scan_once()
    await scan.scan.release()
    assert await other.scan_once()
    assert not await scan.scan.scan_once()
    names = {metric.name for metric in other.collect()}
    assert names == {"pharos_alert_scan_seconds", "pharos_alert_scan_age_seconds", "pharos_alert_scan_events"}


async def test_scan_in_the_background(scan: ScanUnderTest) -> None:
    await scan.run()
    background = AlertScan(scan.sessions, scan.store)
    # A single scan does not wait for the lease of a killed process.
    async with running_alert_scan(background, is_alone=True, every=0.01):
        # The first metric is the duration of the last scan.
        while next(iter(background.collect())).samples[0].value == 0:
            await asyncio.sleep(0.01)
    # The lease was released.
    assert await scan.scan.scan_once()


async def test_dead_letters_of_the_embedded_log(
    scan: ScanUnderTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = type(shutil.disk_usage(tmp_path))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(100, 50, 50))
    log = await open_sqlite_log(tmp_path / "event-log.sqlite", Bounds(2**30, 2**20, 0))
    topic = topics.dead_letter_topic(topics.TRACES)
    try:
        # Dead letters from before the start are not new.
        await log.append(topic, b"key", b"meta", b"value")
        scan.scan = AlertScan(scan.sessions, scan.store, tmp_path, clock=lambda: scan.now)
        assert await scan.run() == []
        await log.append(topic, b"key", b"meta", b"value")
        assert await scan.run(30) == [("platform.dead_letters", "dead letters", "firing")]
        for _ in range(21):
            assert await scan.run(170) == []
        assert await scan.run(170) == [("platform.dead_letters", "dead letters", "resolved")]
    finally:
        await log.close()
