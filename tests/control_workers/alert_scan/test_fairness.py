"""One account's telemetry never keeps the scan from evaluating the conditions of others, and the scan stays cheap."""

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert, select

from analytics_queries.alerts import exception_spikes, seen_exceptions
from analytics_queries.alerts.metric_minutes import metric_minutes
from control_domain.accounts.operations import create_account
from control_domain.monitors.operations import create_queue
from control_domain.notifications.end_threshold import end_threshold
from control_domain.projects.operations import create_environment, create_project
from control_domain.tables.monitors import QueueState, QueueWorker
from control_domain.tables.notifications import AlertIncident, AlertState, AlertThreshold
from control_domain.tables.projects import Environment
from control_workers.alert_scan import exceptions, queues
from control_workers.alert_scan import scan as scan_module
from control_workers.alert_scan.shared_queries import SharedQuery, Weighed
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.rate_limits import RateLimit
from pipeline_contracts.times import to_epoch_ms
from tests.control_workers.alert_scan.test_exceptions import _decide, _exceptions
from tests.control_workers.alert_scan.test_thresholds import _add, _points, _values
from tests.support.alert_scans import ScanUnderTest


async def _add_other(scan: ScanUnderTest) -> Environment:
    """Add an environment of another account, whose public ID sorts first."""
    async with scan.sessions() as session, session.begin():
        account = await create_account(session, "Other", "other", RateLimit(10, 20), scan.now)
        project = await create_project(session, account, "Noise", "noise", scan.now)
        environment = await create_environment(
            session, project, "Production", "production", "production", scan.now
        )
        environment.public_id = f"env_0{uuid.uuid4().hex}"
    return environment


def _flood(scan: ScanUnderTest, other: Environment, groups: int, count: int = 1, **members: Any) -> list[Any]:
    """Return exceptions of many types."""
    return [
        row
        for number in range(groups)
        for row in _exceptions(
            scan,
            "noise",
            seconds=5,
            stored=5,
            count=count,
            environment_id=other.public_id,
            kind=f"Kind{chr(65 + number % 26)}{chr(65 + number // 26)}",
            **members,
        )
    ]


async def test_spikes_of_one_account_do_not_hide_those_of_another(
    scan: ScanUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exception_spikes, "MAX_GROUPS", 3)
    other = await _add_other(scan)
    history = [
        row
        for number in range(140)
        for row in _exceptions(scan, "rare", seconds=700 + 600 * number, stored=700 + 600 * number, count=2)
    ]
    await scan.insert("exceptions", *history, *_exceptions(scan, "rare", seconds=60, stored=60, count=100))
    ((kind, subject, state),) = await scan.run()
    assert (kind, state) == ("exception.spike", "firing")
    await scan.insert("exceptions", *_flood(scan, other, 10, count=101))
    assert [event for event in await scan.run(5) if event[0] == "exception.spike"] == []
    # A condition that could not be read has not recovered.
    scan.store.failing = ("AS sample_service",)
    assert await scan.run(5) == []
    scan.store.failing = ()
    assert await scan.run(700) == [("exception.spike", subject, "resolved")]


async def test_new_groups_of_one_account_do_not_hide_those_of_another(
    scan: ScanUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seen_exceptions, "MAX_GROUPS", 3)
    other = await _add_other(scan)
    await scan.run()
    await scan.insert(
        "exceptions", *_flood(scan, other, 10), *_exceptions(scan, "victim", seconds=5, stored=5)
    )
    events = await scan.run_for_events(30)
    mine = [event for event in events if event.environment_id == scan.acme.environment.id]
    assert [(event.kind, event.state) for event in mine] == [("exception.new", "firing")]
    assert sorted((event.subject == "more", event.state) for event in events if event not in mine) == [
        *[(False, "firing")] * 3,
        (True, "info"),
    ]
    assert '"more":7' in next(event.facts for event in events if event.subject == "more")


async def test_huge_texts(scan: ScanUnderTest) -> None:
    await scan.run()
    other = await _add_other(scan)
    await scan.insert(
        "exceptions",
        *_flood(scan, other, 3, service="s" * 250_000),
        *_exceptions(scan, "victim", seconds=5, stored=5),
    )
    events = await scan.run_for_events(30)
    assert len(events) == 4
    assert max(len(event.facts) for event in events) < 2000


async def test_unreadable_interval_is_skipped_after_five_minutes(scan: ScanUnderTest) -> None:
    """After an outage of an hour, the scan halves the interval each time, and skips to the next one after five
    minutes."""
    await scan.run()
    await scan.insert("exceptions", *_exceptions(scan, "first", seconds=5, stored=5))
    scan.store.failing = ("AS sample_frame",)
    assert await scan.run(3600) == []
    for _ in range(exceptions._MAX_FAILURES):
        await scan.run(30)
    scan.store.failing = ()
    await scan.insert("exceptions", *_exceptions(scan, "later", seconds=15, stored=15))
    found = [kind for _ in range(12) for kind, *_ in await scan.run(30)]
    assert found == ["exception.new"]


@pytest.mark.both_databases
async def test_open_incidents_of_new_groups_are_limited(
    scan: ScanUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exceptions, "MAX_OPEN", 3)
    environment = scan.acme.environment
    for number in range(2):
        row = AlertIncident(
            public_id=f"inc_{number}",
            open_key=f"{number}",
            account_id=scan.acme.account.id,
            project_id=scan.acme.project.id,
            environment_id=environment.id,
            kind="exception.new",
            subject=f"{number}",
            severity="warning",
            state="firing",
            started_at=scan.now,
            changed_at=scan.now,
            facts="{}",
        )
        async with scan.sessions() as session, session.begin():
            session.add(row)
    await scan.run()
    found = []
    for kind in "ABC":
        scan.now += timedelta(seconds=30)
        await scan.insert(
            "exceptions", *(_exceptions(scan, f"{kind} {each}", seconds=15, stored=15)[0] for each in "XYZ")
        )
        found.append([state for *_, state in await scan.run()])
    # Each scan can open one more incident, because no worker opens them here. The others are reported once an hour.
    assert found == [["firing", "info"], ["firing"], ["firing"]]
    scan.now += timedelta(hours=1)
    await scan.insert("exceptions", *_exceptions(scan, "D", seconds=15, stored=15))
    await scan.insert("exceptions", *_exceptions(scan, "E", seconds=15, stored=15))
    (more,) = [event for event in await scan.run_for_events() if event.subject == "more"]
    assert '"more":5' in more.facts


@pytest.mark.both_databases
async def test_lost_workers_of_one_queue_do_not_hide_those_of_another(
    scan: ScanUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "MAX_LOST", 3)
    other = await _add_other(scan)
    now_ms = to_epoch_ms(scan.now)
    async with scan.sessions() as session, session.begin():
        noisy = (await create_queue(session, other, "noisy", scan.now)).id
        mail = (await create_queue(session, scan.acme.environment, "mail", scan.now)).id
    lost = [(noisy, f"w{number}", now_ms - 1_800_000 + number) for number in range(30)]
    lost.append((mail, "mine", now_ms - 1_000_000))
    rows = [
        {"queue_id": queue, "worker_id": worker, "sequence": 1, "status": "busy", "received_ms": at}
        for queue, worker, at in lost
    ]
    async with scan.sessions() as session, session.begin():
        await session.execute(insert(QueueWorker), rows)
        for queue in (noisy, mail):
            state = {"snapshot_id": "s", "observed_us": 1, "received_ms": now_ms, "pending": 1}
            session.add(QueueState(queue_id=queue, **state))
    events = await scan.run_for_events()
    assert sorted(event.subject for event in events) == sorted(
        [f"worker {mail} mine", *(f"worker {noisy} w{number}" for number in range(3))]
    )
    assert '"lost":30' in next(event.facts for event in events if event.subject.endswith("w0"))
    # No further workers of the queue are reported while these are lost, and nothing is written.
    assert await scan.run(30) == []
    async with scan.sessions() as session, session.begin():
        row = await session.get_one(QueueWorker, (noisy, "w0"))
        row.status = "stopped"
    assert await scan.run(30) == [("queue.worker_lost", f"worker {noisy} w0", "resolved")]
    assert await scan.run(30) == [("queue.worker_lost", f"worker {noisy} w3", "firing")]


async def test_only_changes_are_written(scan: ScanUnderTest) -> None:
    await _add(scan, "depth", "metric.value", "depth", threshold=5, recovery=1)
    await scan.insert("otel_metrics_gauge", *_points(scan, "depth", (30, 10.0)))
    await scan.run()

    async def evaluated_at() -> datetime:
        async with scan.sessions() as session:
            (row,) = (await session.scalars(select(AlertState))).all()
            return row.evaluated_at

    first = await evaluated_at()
    await scan.run(30)
    assert await evaluated_at() == first
    await scan.run(100)
    assert await evaluated_at() == scan.now


async def test_services_of_a_metric_are_summed_up_by_the_store(scan: ScanUnderTest) -> None:
    environment = scan.acme.environment.public_id
    rows = [_points(scan, "depth", (30, 1.0), ServiceName=f"s{number}")[0] for number in range(50)]
    await scan.insert("otel_metrics_gauge", *rows)
    asked = {(environment, "depth", None), (environment, "depth", "s7")}
    ((_, minutes),) = (await metric_minutes(scan.engine, asked, scan.now, 5)).items()
    assert sorted((each.service, each.points) for each in minutes) == [("", 49), ("s7", 1)]


async def test_a_value_that_is_not_finite_is_not_known(scan: ScanUnderTest) -> None:
    for aggregation in ("sum", "avg", "max"):
        await _add(
            scan, aggregation, "metric.value", "huge", threshold=5, recovery=1, aggregation=aggregation
        )
    await scan.insert("otel_metrics_gauge", *_points(scan, "huge", (30, 1e308), (31, 1e308)))
    assert [subject for _, subject, _ in await scan.run()] == ["threshold 3"]
    assert {name: phase for name, (phase, _) in (await _values(scan)).items()} == {
        "sum": "ok",
        "avg": "ok",
        "max": "firing",
    }


@pytest.mark.both_databases
async def test_a_threshold_that_is_changed_meanwhile(
    scan: ScanUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = await _add(scan, "depth", "metric.value", "depth", threshold=5, recovery=1)
    await scan.insert("otel_metrics_gauge", *_points(scan, "depth", (30, 10.0)))
    await scan.insert("otel_metrics_gauge", *_points(scan, "other", (30, 20.0)))
    assert await scan.run() == [("metric.value", subject, "firing")]
    await scan.insert("otel_metrics_gauge", *_points(scan, "depth", (1, 11.0)))
    write = scan_module.AlertScan._write

    async def change_and_write(*arguments: Any) -> bool:
        async with scan.sessions() as session, session.begin():
            row = (await session.scalars(select(AlertThreshold))).one()
            acme = scan.acme
            await end_threshold(session, row, acme.environment, acme.project, "changed", scan.now)
            row.target = "other"
        return await write(*arguments)

    monkeypatch.setattr(scan_module.AlertScan, "_write", change_and_write)
    assert await scan.run(30) == [("metric.value", subject, "resolved")]
    assert await _values(scan) == {}
    monkeypatch.setattr(scan_module.AlertScan, "_write", write)
    assert await scan.run(30) == [("metric.value", subject, "firing")]


async def test_a_regression_that_cannot_be_written_is_found_again(
    scan: ScanUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scan.insert("exceptions", *_exceptions(scan, "back", seconds=3600, stored=3600))
    await scan.run()
    (((group,),)) = (
        await scan.engine.query(
            "SELECT lower(leftPad(hex(group_id), 16, '0')) FROM pharos.exceptions WHERE environment_id = {e:String}",
            {"e": scan.acme.environment.public_id},
        )
    ).rows
    await _decide(scan, group, "resolved")
    await scan.take_events()
    scan.now += timedelta(seconds=60)
    await scan.insert("exceptions", *_exceptions(scan, "back", seconds=15, stored=15))

    async def fail(*_: Any) -> None:
        raise StorageUnavailable("the database is away")

    write = scan_module.write_changes
    monkeypatch.setattr(scan_module, "write_changes", fail)
    with pytest.raises(StorageUnavailable):
        await scan.scan.scan_once()
    monkeypatch.setattr(scan_module, "write_changes", write)
    assert await scan.run(30) == [("exception.regressed", group, "firing")]
    scan.now += timedelta(seconds=30)
    await scan.insert("exceptions", *_exceptions(scan, "back", seconds=15, stored=15))
    assert await scan.run() == []


async def test_an_account_that_makes_a_query_fail_is_read_alone() -> None:
    asked: list[list[int]] = []
    now = datetime(2026, 1, 1, tzinfo=UTC)
    bad = {2}

    async def query(accounts: Any) -> None:
        asked.append(list(accounts))
        if bad & {*accounts}:
            raise StorageUnavailable("too many rows")

    shared = SharedQuery("test", most=10, seconds=60.0)
    accounts = [Weighed(number, 3) for number in range(1, 6)]
    assert await shared.run(accounts, query, now) == {2}
    assert asked == [[1, 2, 3], [1], [2], [3], [4, 5]]
    for _ in range(2):
        asked.clear()
        assert await shared.run(accounts, query, now) == {2}
        assert sorted(asked) == [[1, 3, 4], [2], [5]]
    # After an hour the account is read together with the others again. If all queries fail, no single account is the
    # cause.
    asked.clear()
    bad.clear()
    assert await shared.run(accounts, query, now + timedelta(hours=2)) == set()
    bad.update(range(1, 6))
    assert await shared.run(accounts, query, now + timedelta(hours=2)) == {1, 2, 3, 4, 5}
    bad.clear()
    asked.clear()
    assert await shared.run(accounts, query, now + timedelta(hours=2)) == set()
    assert sorted(map(len, asked)) == [2, 3]
    # Without time left, the others stay unknown.
    assert await SharedQuery("test", most=10, seconds=0.0).run(accounts, _read_limited, now) == {
        1,
        2,
        3,
        4,
        5,
    }


async def _read_limited(_: Any) -> None:
    raise StorageUnavailable("no time is left")
