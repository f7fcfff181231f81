"""Heartbeats and queues are removed with all their rows and no others, on both databases."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import pytest

from control_domain.audit import Actor
from control_domain.database.base import Base
from control_domain.monitors import remove_monitors
from control_domain.monitors.find import FoundHeartbeat, FoundQueue
from control_domain.monitors.heartbeat_alerts import record_removal_alerts
from control_domain.monitors.manage_heartbeats import delete_heartbeat
from control_domain.monitors.manage_queues import delete_queue
from control_domain.monitors.operations import live_monitor_keys
from control_domain.monitors.remove_monitors import remove_heartbeat, remove_queue
from control_domain.tables.monitors import (
    CreatedHeartbeat,
    Heartbeat,
    HeartbeatLogEntry,
    HeartbeatRun,
    HeartbeatState,
    MonitorKey,
    Queue,
    QueueState,
    QueueWorker,
)
from control_domain.tables.notifications import AlertEvent
from pipeline_contracts.credentials import digest_credential
from pipeline_contracts.heartbeat_runs import Run
from pipeline_contracts.heartbeat_states import apply_signal, update_state
from storage_backends.monitor_states.interface import Progress, SeenQueue, SeenWorker
from tests.support.changed_project import PreparedProject
from tests.support.databases import copied_database
from tests.support.lock_waits import ends_or_waits
from tests.support.managed_project import NOW, ManagedProject
from tests.support.monitored import open_states

Kind = Literal["heartbeat", "queue"]
KINDS: list[Kind] = ["heartbeat", "queue"]
OF_KIND = {
    "heartbeat": {
        Heartbeat,
        HeartbeatState,
        HeartbeatRun,
        HeartbeatLogEntry,
        CreatedHeartbeat,
        MonitorKey,
    },
    "queue": {Queue, QueueState, QueueWorker, MonitorKey},
}
"""All tables with rows of one monitor."""


@pytest.fixture
async def database_url(prepared_project: PreparedProject, tmp_path: Path) -> AsyncIterator[str]:
    """Yield the URL of this test's copy, which the fixture `sessions` opens."""
    async with copied_database(prepared_project.url, tmp_path) as url:
        yield url


async def _fill(managed: ManagedProject, kind: Kind, name: str) -> tuple[int, list[str]]:
    """Add a monitor with a row in each of its tables. Return its number and its keys, the last of which is revoked."""
    objects = managed.objects
    made = await (objects.add_heartbeat(name) if kind == "heartbeat" else objects.add_queue(name))
    more = [await objects.add_monitor_key(kind, made.id) for _ in range(2)]
    await objects.revoke_monitor_key(more[1].id)
    rows: list[Any] = [
        HeartbeatRun(heartbeat_id=made.id, run_id="r1", first_ms=1, started_ms=1),
        HeartbeatLogEntry(heartbeat_id=made.id, entry_id="e1", received_ms=1),
        CreatedHeartbeat(heartbeat_id=made.id, created_ms=1),
    ]
    if kind == "queue":
        rows = [
            QueueState(queue_id=made.id, snapshot_id="s1", observed_us=1, received_ms=1, pending=1),
            QueueWorker(queue_id=made.id, worker_id="w1", sequence=1, status="idle", received_ms=1),
        ]
    async with managed.engines.sessions() as session, session.begin():
        session.add_all(rows)
    return made.id, [*made.secrets, *(key.secret for key in more)]


async def _counts(managed: ManagedProject) -> dict[str, int]:
    tables = OF_KIND["heartbeat"] | OF_KIND["queue"]
    return {table.__tablename__: await managed.count(table) for table in tables}


@pytest.mark.parametrize("kind", KINDS)
def test_every_table_that_refers_to_a_monitor_is_known(kind: Kind) -> None:
    """A new table must be removed with the monitor, and filled above."""
    referring = {
        table.name
        for table in Base.metadata.tables.values()
        if any(key.column.table.name == f"{kind}s" for key in table.foreign_keys)
    }
    assert referring | {f"{kind}s"} == {table.__tablename__ for table in OF_KIND[kind]}


@pytest.mark.both_databases
@pytest.mark.parametrize("kind", KINDS)
async def test_a_monitor_is_removed_with_all_its_rows(managed: ManagedProject, kind: Kind) -> None:
    kept = [await _fill(managed, each, "kept") for each in KINDS]
    before = await _counts(managed)
    number, keys = await _fill(managed, kind, "gone")
    async with managed.engines.sessions() as session, session.begin():
        if kind == "heartbeat":
            heartbeat = await session.get_one(Heartbeat, number)
            state = await session.get_one(HeartbeatState, number)
            found = FoundHeartbeat(heartbeat, state, managed.environment, managed.project)
            removed = await delete_heartbeat(session, found, Actor("test"), NOW)
        else:
            queue = await session.get_one(Queue, number)
            found_queue = FoundQueue(queue, None, managed.environment, managed.project)
            removed = await delete_queue(session, found_queue, Actor("test"), NOW)
    # A revoked key as well: the edges may not have been informed of its revocation.
    assert set(removed) == {digest_credential(key) for key in keys}
    assert await _counts(managed) == before
    async with managed.engines.sessions() as session:
        live = {entry.digest for entry in await live_monitor_keys(session, NOW)}
    assert live == {digest_credential(key) for _, of in kept for key in of[:-1]}
    assert (await managed.read_audit_log())[0] == (
        f"{kind}.remove",
        f"{kind} {number}",
        None,
        "test",
        {"environment": managed.environment.public_id, "name": "gone", "keys": len(keys)},
    )
    # The name can be used again, the number cannot.
    assert (await _fill(managed, kind, "gone"))[0] > number


@pytest.mark.both_databases
async def test_a_concurrent_signal_waits_and_is_dropped(managed: ManagedProject, database_url: str) -> None:
    (number, _), (kept, _) = [await _fill(managed, "heartbeat", name) for name in ("gone", "kept")]
    states = await open_states(database_url)

    def apply(watched: Any) -> Any:
        for one in watched.values():
            run = Run("r2", 5)
            apply_signal(one.heartbeat, run, "success", 5)
            one.changed.append(run)
            update_state(one.heartbeat, 5)
        return list(watched.values())

    try:
        async with managed.engines.sessions() as session, session.begin():
            await remove_heartbeat(session, await session.get_one(Heartbeat, number), NOW)
            runs = {number: ["r2"], kept: ["r2"]}
            writing = asyncio.create_task(states.change(runs, apply, Progress("heartbeats", 0, 1)))
            await ends_or_waits(managed.engines.sessions, writing)
            assert not writing.done()
        await writing
    finally:
        await states.close()
    assert await managed.count(HeartbeatRun, HeartbeatRun.heartbeat_id == number) == 0
    assert await managed.count(HeartbeatRun, HeartbeatRun.heartbeat_id == kept) == 2
    assert await managed.count(HeartbeatState, HeartbeatState.state == "up") == 1


async def test_no_scan_begins_an_incident_of_a_heartbeat_that_is_being_removed(
    managed: ManagedProject, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite, which locks no rows, the write waits until the heartbeat is removed."""
    number, _ = await _fill(managed, "heartbeat", "gone")
    states = await open_states(database_url)
    writing: list[asyncio.Task[Any]] = []

    def fail(watched: Any) -> Any:
        for one in watched.values():
            run = one.runs["r2"] = Run("r2", 5)
            apply_signal(one.heartbeat, run, "failure", 5)
            one.changed.append(run)
            update_state(one.heartbeat, 5)
        return list(watched.values())

    async def record_and_let_others_write(*arguments: Any) -> None:
        await record_removal_alerts(*arguments)
        writing.append(asyncio.create_task(states.change({number: ["r2"]}, fail, None)))
        await ends_or_waits(managed.engines.sessions, writing[0])

    monkeypatch.setattr(remove_monitors, "record_removal_alerts", record_and_let_others_write)
    try:
        async with managed.engines.sessions() as session, session.begin():
            await remove_heartbeat(session, await session.get_one(Heartbeat, number), NOW)
        await writing[0]
    finally:
        await states.close()
    assert await managed.count(AlertEvent) == 0


@pytest.mark.both_databases
async def test_concurrent_reports_of_a_queue_wait_and_are_dropped(
    managed: ManagedProject, database_url: str
) -> None:
    (number, _), (kept, _) = [await _fill(managed, "queue", name) for name in ("gone", "kept")]
    states = await open_states(database_url)
    environment = managed.environment.public_id
    snapshots = [SeenQueue(one, environment, "s2", 2, 2, 7, None, None, None, None) for one in (number, kept)]
    workers = [SeenWorker(one, environment, "w1", 2, "busy", None, 2) for one in (number, kept)]
    try:
        async with managed.engines.sessions() as session, session.begin():
            await remove_queue(session, await session.get_one(Queue, number))
            writing = asyncio.create_task(states.apply_queues(snapshots, workers, Progress("queues", 0, 1)))
            await ends_or_waits(managed.engines.sessions, writing)
            assert not writing.done()
        # If the row to change is removed meanwhile, the write fails as transient, and is repeated.
        (error,) = await asyncio.gather(writing, return_exceptions=True)
        assert error is None or "does not answer now" in str(error)
        await states.apply_queues(snapshots, workers, Progress("queues", 0, 1))
    finally:
        await states.close()
    assert [await managed.count(table) for table in (QueueState, QueueWorker)] == [1, 1]
    assert await managed.count(QueueState, QueueState.queue_id == kept, QueueState.pending == 7) == 1
