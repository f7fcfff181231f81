"""Heartbeats and queues as an operator handles them: made with a key, listed, shown, paused, given new keys."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_api.database import Sessions
from control_api.live_keys import end_key, telling_edges
from control_api.monitors.describe import describe_heartbeat, describe_queue, describe_run
from control_api.monitors.operations import (
    HeartbeatSettings,
    applied_through_ms,
    create_heartbeat,
    create_monitor_key,
    create_queue,
    find_heartbeats,
    find_queues,
    live_monitor_keys,
    newest_runs,
)
from control_api.monitors.tables import HeartbeatState, MonitorKey
from control_api.projects.choose import choose_environment
from control_api.projects.tables import Environment
from control_api.refusals import Refused
from control_api.slugs import LONGEST_NAME, is_name
from pipeline_contracts import topics
from pipeline_contracts.schedules import BadSchedule, Schedule, check_schedule
from pipeline_contracts.times import to_epoch_ms
from storage_backends.key_directory.interface import KeyDirectory, KeyEntry

T = TypeVar("T")

_RUNS = 20
_LONGEST_SECONDS = 366 * 86_400
_MOST_FAILURES = 1000


async def add_heartbeat(
    sessions: Sessions, directory: KeyDirectory, wanted: dict[str, Any], now: datetime
) -> dict[str, Any]:
    """A new heartbeat and its key, `key`, which is told here and never again.

    `wanted`: name, either period_seconds or cron (and timezone), grace_seconds, max_runtime_seconds,
    failures_before_down, environment_id; what is left out has its default. Raises `Refused`.
    """
    settings = _heartbeat_settings(wanted)

    async def make(session: AsyncSession, environment: Environment) -> dict[str, Any]:
        heartbeat = await create_heartbeat(session, environment, settings, now)
        key_id, secret = await create_monitor_key(session, now, heartbeat_id=heartbeat.id)
        return {"id": heartbeat.id, "name": heartbeat.name, "key_id": key_id, "key": secret}

    return await _add(sessions, directory, wanted, now, make)


def _heartbeat_settings(wanted: dict[str, Any]) -> HeartbeatSettings:
    schedule = Schedule(wanted.get("period_seconds"), wanted.get("cron"), wanted.get("timezone") or "UTC")
    try:
        check_schedule(schedule)
    except BadSchedule as error:
        raise Refused(str(error)) from error
    settings = HeartbeatSettings(
        _name(wanted),
        schedule,
        **{
            name: wanted[name]
            for name in ("grace_seconds", "max_runtime_seconds", "failures_before_down")
            if wanted.get(name) is not None
        },
    )
    if not 0 <= settings.grace_seconds <= _LONGEST_SECONDS:
        raise Refused("The grace time is 0 seconds to 366 days.")
    if not 1 <= settings.max_runtime_seconds <= _LONGEST_SECONDS:
        raise Refused("The longest run time is 1 second to 366 days.")
    if not 1 <= settings.failures_before_down <= _MOST_FAILURES:
        raise Refused(f"The number of failures before down is 1 to {_MOST_FAILURES}.")
    return settings


def _name(wanted: dict[str, Any]) -> str:
    name = str(wanted.get("name") or "").strip()
    if not is_name(name):
        raise Refused(f"A name has 1 to {LONGEST_NAME} printable characters.")
    return name


async def add_queue(
    sessions: Sessions, directory: KeyDirectory, wanted: dict[str, Any], now: datetime
) -> dict[str, Any]:
    """A new queue and its key. `wanted`: name, environment_id. Raises `Refused`."""
    name = _name(wanted)

    async def make(session: AsyncSession, environment: Environment) -> dict[str, Any]:
        queue = await create_queue(session, environment, name, now)
        key_id, secret = await create_monitor_key(session, now, queue_id=queue.id)
        return {"id": queue.id, "name": name, "key_id": key_id, "key": secret}

    return await _add(sessions, directory, wanted, now, make)


async def _add(
    sessions: Sessions,
    directory: KeyDirectory,
    wanted: dict[str, Any],
    now: datetime,
    make: Callable[[AsyncSession, Environment], Awaitable[dict[str, Any]]],
) -> dict[str, Any]:
    try:
        async with sessions() as session, session.begin():
            environment = await choose_environment(session, wanted.get("environment_id"))
            told = await make(session, environment)
            entries = await live_monitor_keys(session, now, told["key_id"])
    except IntegrityError:
        raise Refused(f"The environment has one of the name {_name(wanted)!r} already.") from None
    return await _publish(directory, told, entries)


async def _publish(
    directory: KeyDirectory, told: dict[str, Any], entries: Sequence[KeyEntry]
) -> dict[str, Any]:
    """Tell the edges of the new key, after the commit."""
    with telling_edges(told):
        for entry in entries:
            await directory.publish(entry)
    return told


def _the_one(found: Sequence[T], kind: str, monitor_id: int) -> T:
    """The monitor that was looked for. Raises `Refused` where there is none."""
    if not found:
        raise Refused(f"There is no {kind} {monitor_id}; `pharos {kind} list` shows all.")
    return found[0]


async def list_heartbeats(sessions: Sessions) -> Sequence[dict[str, Any]]:
    """Every heartbeat with its state."""
    async with sessions() as session:
        return [describe_heartbeat(seen) for seen in await find_heartbeats(session)]


async def show_heartbeat(sessions: Sessions, heartbeat_id: int) -> dict[str, Any]:
    """One heartbeat, its newest runs, and its keys. Raises `Refused`."""
    async with sessions() as session:
        seen = _the_one(await find_heartbeats(session, heartbeat_id), "heartbeat", heartbeat_id)
        runs = await newest_runs(session, heartbeat_id, _RUNS)
        keys = await _keys(session, MonitorKey.heartbeat_id == heartbeat_id)
        return {
            **describe_heartbeat(seen),
            "runs": [describe_run(run) for run in runs],
            "keys": keys,
        }


async def pause_heartbeat(
    sessions: Sessions, heartbeat_id: int, paused: bool, now: datetime
) -> dict[str, Any]:
    """Stop judging a heartbeat, or begin anew: then it waits for its next signal. Raises `Refused`."""
    async with sessions() as session, session.begin():
        seen = _the_one(await find_heartbeats(session, heartbeat_id, lock=True), "heartbeat", heartbeat_id)
        if seen.heartbeat.paused != paused:
            seen.heartbeat.paused = paused
            # All in one statement: SQLite locks nothing when it reads, and a consumer may have written since.
            await session.execute(
                update(HeartbeatState)
                .where(HeartbeatState.heartbeat_id == heartbeat_id)
                .values(
                    state="paused" if paused else "new",
                    since_ms=to_epoch_ms(now),
                    due_ms=None,
                    deadline_ms=None,
                    # What failed or did not come while nobody looked is no reason for an alarm.
                    failures_in_row=0,
                    version=HeartbeatState.version + 1,
                )
            )
            await session.refresh(seen.state)
        return describe_heartbeat(seen)


async def list_queues(sessions: Sessions, now: datetime) -> Sequence[dict[str, Any]]:
    """Every queue with its newest snapshot and its workers."""
    async with sessions() as session:
        clock_ms = await _queues_clock_ms(session, now)
        return [describe_queue(seen, clock_ms) for seen in await find_queues(session)]


async def show_queue(sessions: Sessions, queue_id: int, now: datetime) -> dict[str, Any]:
    """One queue and its keys. Raises `Refused`."""
    async with sessions() as session:
        seen = _the_one(await find_queues(session, queue_id), "queue", queue_id)
        keys = await _keys(session, MonitorKey.queue_id == queue_id)
        return {**describe_queue(seen, await _queues_clock_ms(session, now)), "keys": keys}


async def _queues_clock_ms(session: AsyncSession, now: datetime) -> int:
    """Now, or how far reports are applied where that is less: a backlog of ours makes no worker lost."""
    applied = await applied_through_ms(session, topics.QUEUES)
    return to_epoch_ms(now) if applied is None else min(to_epoch_ms(now), applied)


async def _keys(session: AsyncSession, of: Any) -> list[dict[str, Any]]:
    keys = (await session.execute(select(MonitorKey).where(of).order_by(MonitorKey.id))).scalars()
    return [{"id": key.id, "state": "live" if key.revoked_at is None else "revoked"} for key in keys]


async def add_key(
    sessions: Sessions, directory: KeyDirectory, kind: str, monitor_id: int, now: datetime
) -> dict[str, Any]:
    """One more key of a heartbeat or a queue (`kind`); those before go on working. Raises `Refused`."""
    async with sessions() as session, session.begin():
        find = find_heartbeats if kind == "heartbeat" else find_queues
        _the_one(await find(session, monitor_id), kind, monitor_id)
        key_id, secret = await create_monitor_key(
            session,
            now,
            heartbeat_id=monitor_id if kind == "heartbeat" else None,
            queue_id=monitor_id if kind == "queue" else None,
        )
        entries = await live_monitor_keys(session, now, key_id)
    return await _publish(directory, {"id": monitor_id, "key_id": key_id, "key": secret}, entries)


async def revoke_monitor_key(
    sessions: Sessions, directory: KeyDirectory, kind: str, monitor_id: int, key_id: int, now: datetime
) -> dict[str, Any]:
    """Revoke a key of a monitor: no edge takes it any more within 5 s. Raises `Refused`."""
    column = MonitorKey.heartbeat_id if kind == "heartbeat" else MonitorKey.queue_id
    async with sessions() as session, session.begin():
        digest = await end_key(session, MonitorKey, key_id, now, column == monitor_id)
        if digest is None:
            raise Refused(
                f"{kind.title()} {monitor_id} has no key {key_id}; `pharos {kind} show` lists them."
            )
    told: dict[str, Any] = {"id": key_id, "revoked": True}
    with telling_edges(told):
        await directory.revoke(digest)
    return told
