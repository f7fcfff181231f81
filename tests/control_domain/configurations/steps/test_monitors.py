"""Heartbeats and queues that a configuration creates, changes and removes, on both databases."""

from typing import Any

import pytest
from sqlalchemy import select, update

from control_domain.configurations.resources import FIELDS, MASK
from control_domain.configurations.steps.step_context import Publications
from control_domain.tables.monitors import (
    Heartbeat,
    HeartbeatRun,
    HeartbeatState,
    MonitorKey,
    Queue,
    QueueState,
    QueueWorker,
)
from pipeline_contracts.credentials import digest_credential
from pipeline_contracts.times import to_epoch_ms
from tests.support.changed_project import PRODUCTION, STAGING, ChangedProject
from tests.support.managed_project import NOW

BACKUP = (*PRODUCTION, "heartbeats", "Nightly backup")
MAIL = (*PRODUCTION, "queues", "mail")
HOURLY = {"cron": None, "period": "1h"}
NIGHTLY = {"cron": "0 3 * * *", "period": None}
OTHERWISE: dict[str, dict[str, Any]] = {
    "schedule": NIGHTLY,
    "period": {"period": "90s"},
    "timezone": {"timezone": "Europe/Oslo"},
    "grace": {"grace": "0s"},
    "max_runtime": {"max_runtime": "2h"},
    "failures_before_down": {"failures_before_down": 3},
    "paused": {"paused": True},
}
"""Other settings than those of an hourly heartbeat."""


async def _state(configured: ChangedProject) -> HeartbeatState:
    async with configured.managed.engines.sessions() as session:
        return (await session.execute(select(HeartbeatState))).scalar_one()


async def _number(configured: ChangedProject) -> int:
    async with configured.managed.engines.sessions() as session:
        return (await session.execute(select(Heartbeat.id))).scalar_one()


async def test_a_heartbeat_is_created_without_a_key(configured: ChangedProject) -> None:
    action = await configured.plan_one(BACKUP, {**NIGHTLY, "grace": "30m"})
    environment = configured.managed.environment.public_id
    assert await configured.apply_step(action) == Publications(names=[(environment, "Nightly backup")])
    assert await configured.fields(BACKUP) == {**FIELDS["heartbeat"], **NIGHTLY, "grace": "30m"}
    assert await configured.managed.count(MonitorKey) == 0
    assert (await _state(configured)).state == "new"
    details = {
        "environment": configured.managed.environment.public_id,
        "name": "Nightly backup",
        "cron": "0 3 * * *",
        "grace": "30m",
    }
    assert await configured.audited() == [("heartbeat.create", details)]
    assert await configured.repeated(action) == Publications()


async def test_a_heartbeat_is_created_with_all_fields(configured: ChangedProject) -> None:
    said = {
        **HOURLY,
        "timezone": "Europe/Oslo",
        "grace": "10s",
        "max_runtime": "1d",
        "failures_before_down": 2,
        "paused": True,
    }
    action = await configured.plan_one(BACKUP, said)
    await configured.apply_step(action)
    assert await configured.fields(BACKUP) == said
    assert (await _state(configured)).state == "paused"
    await configured.repeated(action)


async def test_an_existing_different_heartbeat_is_not_changed(
    configured: ChangedProject,
) -> None:
    action = await configured.plan_one(BACKUP, {**HOURLY, "grace": "1m"})
    await configured.managed.objects.add_heartbeat("Nightly backup", period_seconds=60)
    assert await configured.refused(action) == (
        'environments.production.heartbeats["Nightly backup"] exists already, with another period, grace; make a new '
        "review."
    )


@pytest.mark.parametrize("which", OTHERWISE)
async def test_each_setting_is_changed_and_changed_back(configured: ChangedProject, which: str) -> None:
    await configured.plan_and_apply(BACKUP, HOURLY)
    present = await configured.fields(BACKUP)
    assert present is not None
    wanted = OTHERWISE[which]
    for said in (wanted, {field: present[field] for field in wanted}):
        action = await configured.plan_one(BACKUP, said)
        assert await configured.apply_step(action) == Publications()
        assert await configured.fields(BACKUP) == {**present, **said}
        await configured.repeated(action)
    first, second = [details for name, details in await configured.audited() if name == "heartbeat.set"]
    assert first == {field: {"from": present[field], "to": wanted[field]} for field in wanted}
    assert second == {field: {"from": wanted[field], "to": present[field]} for field in wanted}


async def test_changing_settings_keeps_the_history_of_a_heartbeat(
    configured: ChangedProject,
) -> None:
    await configured.plan_and_apply(BACKUP, HOURLY)
    now_ms = to_epoch_ms(NOW)
    async with configured.managed.engines.sessions() as session, session.begin():
        await session.execute(
            update(HeartbeatState).values(
                state="up", last_signal_ms=now_ms, last_success_ms=now_ms, last_end_ms=now_ms, version=4
            )
        )
    await configured.plan_and_apply(BACKUP, {"cron": None, "period": "2h", "failures_before_down": 2})
    state = await _state(configured)
    assert (state.state, state.last_success_ms, state.due_ms) == ("up", now_ms, now_ms + 7_200_000)
    # A consumer that has read the former settings must not write a state based on them.
    assert state.version > 4


async def test_a_heartbeat_that_is_paused_and_changed_at_once_is_both(configured: ChangedProject) -> None:
    await configured.plan_and_apply(BACKUP, HOURLY)
    await configured.plan_and_apply(BACKUP, {**NIGHTLY, "paused": True})
    assert (await _state(configured)).state == "paused"
    await configured.plan_and_apply(BACKUP, {**HOURLY, "paused": False})
    state = await _state(configured)
    assert (state.state, state.due_ms, state.deadline_ms) == ("new", None, None)


@pytest.mark.parametrize(
    ("columns", "fields"),
    [
        ({"grace_seconds": 1}, "grace"),
        ({"period_seconds": None, "cron": "5 5 * * *"}, "cron"),
        ({"paused": True, "max_runtime_seconds": 5}, "max_runtime"),
    ],
)
async def test_a_heartbeat_changed_since_the_plan_is_not_changed(
    configured: ChangedProject, columns: dict[str, Any], fields: str
) -> None:
    await configured.plan_and_apply(BACKUP, HOURLY)
    said = {**NIGHTLY, "grace": "2m", "max_runtime": "2h", "paused": True}
    action = await configured.plan_one(BACKUP, said)
    removal = await configured.plan_one(BACKUP)
    await configured.managed.change(Heartbeat, await _number(configured), **columns)
    changed = 'environments.production.heartbeats["Nightly backup"] was changed meanwhile: '
    assert await configured.refused(action) == f"{changed}{fields}; make a new review."
    assert (await configured.refused(removal)).startswith(changed)


@pytest.mark.both_databases
async def test_a_change_waits_for_a_concurrent_pause(configured: ChangedProject) -> None:
    await configured.plan_and_apply(BACKUP, HOURLY)
    await configured.plan_and_apply(BACKUP, {"paused": True})
    action = await configured.plan_one(BACKUP)
    async with configured.while_uncommitted(action) as session:
        state = await session.get_one(HeartbeatState, await _number(configured), with_for_update=True)
        state.version += 1
        await session.flush()
        await session.execute(update(Heartbeat).values(paused=False))


async def test_a_heartbeat_removed_since_the_plan_is_not_changed(configured: ChangedProject) -> None:
    await configured.plan_and_apply(BACKUP, HOURLY)
    change = await configured.plan_one(BACKUP, {"grace": "2m"})
    removal = await configured.plan_one(BACKUP)
    await configured.plan_and_apply(BACKUP)
    gone = 'environments.production.heartbeats["Nightly backup"] was removed meanwhile; make a new review.'
    assert await configured.refused(change) == gone
    assert await configured.repeated(removal) == Publications()
    # The same holds if its environment was removed too.
    await configured.managed.remove_environment()
    assert await configured.refused(change) == gone
    assert await configured.repeated(removal) == Publications()


@pytest.mark.parametrize(("address", "fields"), [(BACKUP, HOURLY), (MAIL, {})])
async def test_no_monitor_is_created_in_a_removed_environment(
    configured: ChangedProject, address: tuple[str, ...], fields: dict[str, Any]
) -> None:
    action = await configured.plan_one(address, fields)
    await configured.managed.remove_environment()
    message = await configured.refused(action)
    assert message.endswith(
        "cannot be created: there is no environment production any more; make a new review."
    )


async def test_a_heartbeat_is_removed_with_its_keys_and_history(
    configured: ChangedProject,
) -> None:
    made = await configured.managed.objects.add_heartbeat("Nightly backup")
    another = await configured.managed.objects.add_monitor_key("heartbeat", made.id)
    async with configured.managed.engines.sessions() as session, session.begin():
        session.add(HeartbeatRun(heartbeat_id=made.id, run_id="r1", first_ms=1, started_ms=1))
    result = await configured.plan_and_apply(BACKUP)
    assert sorted(result.revoke) == sorted(map(digest_credential, (*made.secrets, another.secret)))
    assert result.names == [(configured.managed.environment.public_id, "Nightly backup")]
    for table in (Heartbeat, HeartbeatState, HeartbeatRun, MonitorKey):
        assert await configured.managed.count(table) == 0, table
    assert await configured.audited() == [("heartbeat.remove", {"name": "Nightly backup", "keys": 3})]


async def test_a_queue_is_created_and_removed(configured: ChangedProject) -> None:
    action = await configured.plan_one(MAIL, {})
    assert await configured.apply_step(action) == Publications()
    assert await configured.managed.count(MonitorKey) == 0
    await configured.repeated(action)
    async with configured.managed.engines.sessions() as session:
        queue_id = (await session.execute(select(Queue.id))).scalar_one()
    key = await configured.managed.objects.add_monitor_key("queue", queue_id)
    async with configured.managed.engines.sessions() as session, session.begin():
        session.add(QueueState(queue_id=queue_id, snapshot_id="s1", observed_us=1, received_ms=1, pending=1))
        session.add(QueueWorker(queue_id=queue_id, worker_id="w1", sequence=1, status="idle", received_ms=1))
    action = await configured.plan_one(MAIL)
    assert list((await configured.apply_step(action)).revoke) == [digest_credential(key.secret)]
    for table in (Queue, QueueState, QueueWorker, MonitorKey):
        assert await configured.managed.count(table) == 0, table
    assert await configured.repeated(action) == Publications()
    details = {"environment": configured.managed.environment.public_id, "name": "mail"}
    assert await configured.audited() == [
        ("queue.create", details),
        ("queue.remove", {"name": "mail", "keys": 1}),
    ]


async def test_monitors_of_the_same_name_in_another_environment_stay(configured: ChangedProject) -> None:
    await configured.plan_and_apply(STAGING, {"type": "staging"})
    others = (*STAGING, *BACKUP[2:]), (*STAGING, *MAIL[2:])
    for heartbeat, queue in (others, (BACKUP, MAIL)):
        await configured.plan_and_apply(heartbeat, HOURLY)
        await configured.plan_and_apply(queue, {})
    await configured.plan_and_apply(BACKUP, {"grace": "1m"})
    await configured.plan_and_apply(BACKUP)
    await configured.plan_and_apply(MAIL)
    assert await configured.fields(others[0]) == {**FIELDS["heartbeat"], **HOURLY}
    assert await configured.fields(others[1]) == {}


async def test_the_audit_log_has_no_binding_values(configured: ChangedProject) -> None:
    await configured.plan_and_apply(BACKUP, {**NIGHTLY, "timezone": "Asia/Tokyo"}, bound=["cron", "timezone"])
    await configured.plan_and_apply(BACKUP, {"timezone": "Asia/Seoul"}, bound=["timezone"])
    text = await configured.audit_text()
    assert "Asia" not in text and "0 3" not in text
    masked = {"timezone": {"from": MASK, "to": MASK, "sensitive": True}}
    assert (await configured.audited())[-1] == ("heartbeat.set", masked)
