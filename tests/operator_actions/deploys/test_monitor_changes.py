"""Heartbeats and queues are changed and removed with all that belongs to them, and nothing else, on both databases."""

import asyncio
from typing import Any

import pytest

from control_domain.database.base import Base
from control_domain.monitors.operations import live_monitor_keys
from control_domain.monitors.remove_monitors import remove_heartbeat, remove_queue
from control_domain.tables.monitors import (
    Heartbeat,
    HeartbeatRun,
    HeartbeatState,
    MonitorKey,
    Queue,
    QueueState,
    QueueWorker,
)
from operator_actions.actions.ingest_keys import create_key
from pipeline_contracts.credentials import digest_credential
from pipeline_contracts.heartbeat_runs import Run
from pipeline_contracts.heartbeat_states import apply_signal, update_state
from storage_backends.monitor_states.interface import Progress, SeenQueue, SeenWorker
from tests.support.managed_project import NOW, ManagedProject
from tests.support.monitored import open_states

OF_KIND = {
    "heartbeat": {Heartbeat, HeartbeatState, HeartbeatRun, MonitorKey},
    "queue": {Queue, QueueState, QueueWorker, MonitorKey},
}
"""All that goes with one."""
KINDS = list(OF_KIND)


async def add(managed: ManagedProject, kind: str, name: str) -> dict[str, Any]:
    schedule = {"period_seconds": 3600} if kind == "heartbeat" else {}
    told: dict[str, Any] = await managed.act(f"{kind}s/create", name=name, **schedule)
    return told


async def fill(managed: ManagedProject, kind: str, name: str) -> tuple[int, list[str]]:
    """A row in each of the kind's tables; gives the monitor's number and its keys in the clear, the last of which is
    revoked."""
    made = await add(managed, kind, name)
    number = made["id"]
    more = [await managed.act("monitor-keys/create", kind=kind, id=number) for _ in range(2)]
    await managed.act("monitor-keys/revoke", kind=kind, id=number, key_id=more[1]["key_id"])
    rows: list[Any] = [HeartbeatRun(heartbeat_id=number, run_id="r1", first_ms=1, started_ms=1)]
    if kind == "queue":
        rows = [
            QueueState(queue_id=number, snapshot_id="s1", observed_us=1, received_ms=1, pending=1),
            QueueWorker(queue_id=number, worker_id="w1", sequence=1, status="idle", received_ms=1),
        ]
    async with managed.engines.sessions() as session, session.begin():
        session.add_all(rows)
    ping_keys = [made["ping_key"]] if kind == "heartbeat" else []
    return number, [made["key"], *ping_keys, *(one["key"] for one in more)]


async def counts(managed: ManagedProject) -> dict[str, int]:
    tables = OF_KIND["heartbeat"] | OF_KIND["queue"]
    return {table.__tablename__: await managed.count(table) for table in tables}


@pytest.mark.parametrize("kind", KINDS)
def test_every_table_that_refers_to_a_monitor_is_known(kind: str) -> None:
    """One that comes later has to be removed with it, and to be filled above."""
    referring = {
        table.name
        for table in Base.metadata.tables.values()
        if any(key.column.table.name == f"{kind}s" for key in table.foreign_keys)
    }
    assert referring | {f"{kind}s"} == {table.__tablename__ for table in OF_KIND[kind]}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_monitor_is_removed_with_all_its_rows(managed: ManagedProject, kind: str) -> None:
    ingest_key = (await create_key(managed.engines.sessions, managed.engines.directory, None, NOW))[
        "ingest_key"
    ]
    kept = [await fill(managed, one, "kept") for one in KINDS]
    before = await counts(managed)
    number, keys = await fill(managed, kind, "gone")
    told = await managed.act(f"{kind}s/remove", id=number)
    assert told == {"id": number, "name": "gone", "removed": True}
    assert await counts(managed) == before
    find = managed.engines.directory.find
    assert [await find(digest_credential(key)) for key in keys] == [None] * len(keys)
    live = [digest_credential(key) for _, of in kept for key in of[:-1]]
    assert None not in [await find(digest) for digest in (*live, digest_credential(ingest_key))]
    async with managed.engines.sessions() as session:
        assert {entry.digest for entry in await live_monitor_keys(session, NOW)} == set(live)
    assert (await managed.read_audit_log())[0] == (
        f"{kind}.remove",
        f"{kind} {number}",
        None,
        "operator kim",
        {"environment": managed.environment.public_id, "name": "gone", "keys": len(keys)},
    )
    line = await managed.expect_refusal(f"{kind}s/remove", id=number)
    assert line == f"There is no {kind} {number}; `pharos {kind} list` shows all."
    # Its name is free again; what may still come in for its number is nobody else's.
    assert (await add(managed, kind, "gone"))["id"] > number


@pytest.mark.both_databases
@pytest.mark.parametrize("kind", KINDS)
async def test_of_five_concurrent_removals_one_succeeds(managed: ManagedProject, kind: str) -> None:
    number, _ = await fill(managed, kind, "gone")
    told = await asyncio.gather(
        *(managed.act(f"{kind}s/remove", id=number) for _ in range(5)), return_exceptions=True
    )
    assert len([one for one in told if isinstance(one, dict)]) == 1
    assert {str(one) for one in told if not isinstance(one, dict)} <= {
        f"{kind.title()} {number} was removed by somebody else just now.",
        f"There is no {kind} {number}; `pharos {kind} list` shows all.",
    }
    assert [action for action, *_ in await managed.read_audit_log()] == [f"{kind}.remove"]


@pytest.mark.both_databases
@pytest.mark.parametrize("kind", KINDS)
async def test_a_concurrent_key_is_removed_or_refused(managed: ManagedProject, kind: str) -> None:
    for attempt in range(10):
        number, _ = await fill(managed, kind, f"n{attempt}")
        key, removed = await asyncio.gather(
            managed.act("monitor-keys/create", kind=kind, id=number),
            managed.act(f"{kind}s/remove", id=number),
            return_exceptions=True,
        )
        assert isinstance(removed, dict), removed
        if not isinstance(key, dict):
            assert str(key) in {
                f"{kind.title()} {number} was removed by somebody else just now.",
                f"There is no {kind} {number}; `pharos {kind} list` shows all.",
            }
    assert await managed.count(MonitorKey) == 0


@pytest.mark.both_databases
async def test_a_concurrent_signal_waits_and_is_dropped(managed: ManagedProject, database_url: str) -> None:
    (number, _), (kept, _) = [await fill(managed, "heartbeat", name) for name in ("gone", "kept")]
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
            await remove_heartbeat(session, await session.get_one(Heartbeat, number))
            wanted = {number: ["r2"], kept: ["r2"]}
            writing = asyncio.create_task(states.change(wanted, apply, Progress("heartbeats", 0, 1)))
            await asyncio.sleep(0.3)
            assert not writing.done()
        await writing
    finally:
        await states.close()
    assert await managed.count(HeartbeatRun, HeartbeatRun.heartbeat_id == number) == 0
    assert await managed.count(HeartbeatRun, HeartbeatRun.heartbeat_id == kept) == 2
    assert await managed.count(HeartbeatState, HeartbeatState.state == "up") == 1


@pytest.mark.both_databases
async def test_concurrent_reports_of_a_queue_wait_and_are_dropped(
    managed: ManagedProject, database_url: str
) -> None:
    (number, _), (kept, _) = [await fill(managed, "queue", name) for name in ("gone", "kept")]
    states = await open_states(database_url)
    environment = managed.environment.public_id
    snapshots = [SeenQueue(one, environment, "s2", 2, 2, 7, None, None, None, None) for one in (number, kept)]
    workers = [SeenWorker(one, environment, "w1", 2, "busy", None, 2) for one in (number, kept)]
    try:
        async with managed.engines.sessions() as session, session.begin():
            await remove_queue(session, await session.get_one(Queue, number))
            writing = asyncio.create_task(states.apply_queues(snapshots, workers, Progress("queues", 0, 1)))
            await asyncio.sleep(0.3)
            assert not writing.done()
        # Where the row that it wanted to change is gone, it says so, and is run again.
        (told,) = await asyncio.gather(writing, return_exceptions=True)
        assert told is None or "does not answer now" in str(told)
        await states.apply_queues(snapshots, workers, Progress("queues", 0, 1))
    finally:
        await states.close()
    assert [await managed.count(table) for table in (QueueState, QueueWorker)] == [1, 1]
    assert await managed.count(QueueState, QueueState.queue_id == kept, QueueState.pending == 7) == 1


async def test_the_settings_of_a_heartbeat_are_changed(managed: ManagedProject) -> None:
    number = (await add(managed, "heartbeat", "backup"))["id"]
    told = await managed.act("heartbeats/set", id=number, cron="0 3 * * *", timezone="Europe/Oslo", name="x")
    names = ("name", "period_seconds", "cron", "timezone", "grace_seconds")
    assert [told[name] for name in names] == ["backup", None, "0 3 * * *", "Europe/Oslo", 300]
    told = await managed.act(
        "heartbeats/set",
        id=number,
        **{"period_seconds": 60, "grace_seconds": 0, "max_runtime_seconds": 5, "failures_before_down": 2},
    )
    shown = await managed.act("heartbeats/show", id=number)
    assert told == {name: shown[name] for name in told}
    names = ("period_seconds", "cron", "grace_seconds", "max_runtime_seconds", "failures_before_down")
    assert [told[name] for name in names] == [60, None, 0, 5, 2]
    # Again, and nothing is written.
    await managed.act("heartbeats/set", id=number, period_seconds=60)
    second, first = await managed.read_audit_log()
    assert first == (
        "heartbeat.set",
        f"heartbeat {number}",
        None,
        "operator kim",
        {
            "environment": managed.environment.public_id,
            "period_seconds": {"from": 3600, "to": None},
            "cron": {"from": None, "to": "0 3 * * *"},
            "timezone": {"from": "UTC", "to": "Europe/Oslo"},
        },
    )
    assert set(second[4]) == {
        *("environment", "period_seconds", "cron", "grace_seconds", "max_runtime_seconds"),
        "failures_before_down",
    }


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ({}, "Say what to change: `pharos heartbeat set --help` lists what can be."),
        ({"name": "other"}, "Say what to change: `pharos heartbeat set --help` lists what can be."),
        ({"period_seconds": 0}, "A period lasts from 1 second to 366 days."),
        ({"period_seconds": 60, "cron": "* * * * *"}, "Give either a period or a cron expression."),
        ({"cron": "0 0 30 2 *"}, "'0 0 30 2 *' is no cron expression: Bad day-of-month."),
        ({"timezone": "Mars"}, "'Mars' is no time zone. Use an IANA name, like Europe/Oslo."),
        ({"failures_before_down": 0}, "The number of failures before down is 1 to 1000."),
        ({"id": 999, "grace_seconds": 1}, "There is no heartbeat 999; `pharos heartbeat list` shows all."),
    ],
    ids=str,
)
async def test_invalid_settings_are_refused(
    managed: ManagedProject, wanted: dict[str, Any], told: str
) -> None:
    number = (await add(managed, "heartbeat", "backup"))["id"]
    before = await managed.act("heartbeats/list")
    assert await managed.expect_refusal("heartbeats/set", **{"id": number, **wanted}) == told
    assert await managed.act("heartbeats/list") == before


@pytest.mark.both_databases
async def test_concurrent_changes_of_different_settings_are_all_kept(managed: ManagedProject) -> None:
    number = (await add(managed, "heartbeat", "backup"))["id"]
    wanted = {"grace_seconds": 1, "max_runtime_seconds": 2, "failures_before_down": 3, "period_seconds": 4}
    await asyncio.gather(
        *(managed.act("heartbeats/set", id=number, **{name: value}) for name, value in wanted.items())
    )
    shown = await managed.act("heartbeats/show", id=number)
    assert {name: shown[name] for name in wanted} == wanted
