"""Heartbeats and queues as an operator handles them: made with a key, listed, shown, paused, given new keys."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.engine import Sessions
from control_domain.database.errors import BrokenReference
from control_domain.keys import revoke_key, warn_if_unpublished
from control_domain.monitors.change_heartbeat import set_paused
from control_domain.monitors.operations import (
    applied_through_ms,
    create_heartbeat,
    create_monitor_key,
    create_queue,
    find_heartbeats,
    find_queues,
    list_newest_runs,
    live_monitor_keys,
)
from control_domain.monitors.params import read_heartbeat_settings, read_monitor_name
from control_domain.projects.resolve import resolve_environment
from control_domain.refusals import Refused
from control_domain.tables.monitors import MonitorKey
from control_domain.tables.projects import Environment
from operator_actions.actions.choose_monitor import choose_heartbeat, choose_queue
from operator_actions.actions.describe_monitors import describe_heartbeat, describe_queue, describe_run
from pipeline_contracts import topics
from pipeline_contracts.times import to_epoch_ms
from storage_backends.key_directory.interface import KeyDirectory, KeyEntry

_RUNS = 20


async def add_heartbeat(
    sessions: Sessions, directory: KeyDirectory, wanted: dict[str, Any], now: datetime
) -> dict[str, Any]:
    """A new heartbeat and its key, `key`, which is told here and never again.

    `params`: name, either period_seconds or cron (and timezone), grace_seconds, max_runtime_seconds,
    failures_before_down, environment_id; what is left out has its default. Raises `Refused`.
    """
    settings = read_heartbeat_settings(wanted)

    async def make(session: AsyncSession, environment: Environment) -> dict[str, Any]:
        heartbeat = await create_heartbeat(session, environment, settings, now)
        key_id, secret = await create_monitor_key(session, now, heartbeat_id=heartbeat.id)
        return {"id": heartbeat.id, "name": heartbeat.name, "key_id": key_id, "key": secret}

    return await _add(sessions, directory, wanted, now, make)


async def add_queue(
    sessions: Sessions, directory: KeyDirectory, wanted: dict[str, Any], now: datetime
) -> dict[str, Any]:
    """A new queue and its key. `params`: name, environment_id. Raises `Refused`."""
    name = read_monitor_name(wanted)

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
            environment = await resolve_environment(session, wanted.get("environment_id"))
            told = await make(session, environment)
            entries = await live_monitor_keys(session, now, told["key_id"])
    except BrokenReference:
        raise
    except IntegrityError:
        raise Refused(f"The environment has one of the name {read_monitor_name(wanted)!r} already.") from None
    return await _publish(directory, told, entries)


async def _publish(
    directory: KeyDirectory, told: dict[str, Any], entries: Sequence[KeyEntry]
) -> dict[str, Any]:
    """Tell the edges of the new key, after the commit."""
    with warn_if_unpublished(told):
        for entry in entries:
            await directory.publish(entry)
    return told


async def list_heartbeats(sessions: Sessions) -> Sequence[dict[str, Any]]:
    """Every heartbeat with its state."""
    async with sessions() as session:
        return [describe_heartbeat(seen) for seen in await find_heartbeats(session)]


async def show_heartbeat(sessions: Sessions, heartbeat_id: int) -> dict[str, Any]:
    """One heartbeat, its newest runs, and its keys. Raises `Refused`."""
    async with sessions() as session:
        seen = await choose_heartbeat(session, heartbeat_id)
        runs = await list_newest_runs(session, heartbeat_id, _RUNS)
        keys = await _keys(session, (MonitorKey.heartbeat_id == heartbeat_id) & MonitorKey.sealed.is_(None))
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
        seen = await choose_heartbeat(session, heartbeat_id)
        await set_paused(session, seen.heartbeat, paused, now)
        return describe_heartbeat(seen)


async def list_queues(sessions: Sessions, now: datetime) -> Sequence[dict[str, Any]]:
    """Every queue with its newest snapshot and its workers."""
    async with sessions() as session:
        clock_ms = await _queues_clock_ms(session, now)
        return [describe_queue(seen, clock_ms) for seen in await find_queues(session)]


async def show_queue(sessions: Sessions, queue_id: int, now: datetime) -> dict[str, Any]:
    """One queue and its keys. Raises `Refused`."""
    async with sessions() as session:
        seen = await choose_queue(session, queue_id)
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
    try:
        async with sessions() as session, session.begin():
            await (choose_heartbeat if kind == "heartbeat" else choose_queue)(session, monitor_id)
            key_id, secret = await create_monitor_key(
                session,
                now,
                heartbeat_id=monitor_id if kind == "heartbeat" else None,
                queue_id=monitor_id if kind == "queue" else None,
            )
            entries = await live_monitor_keys(session, now, key_id)
    except IntegrityError:
        raise Refused(f"{kind.title()} {monitor_id} was removed by somebody else just now.") from None
    return await _publish(directory, {"id": monitor_id, "key_id": key_id, "key": secret}, entries)


async def revoke_monitor_key(
    sessions: Sessions, directory: KeyDirectory, kind: str, monitor_id: int, key_id: int, now: datetime
) -> dict[str, Any]:
    """Revoke a key of a monitor: no edge takes it any more within 5 s. Raises `Refused`."""
    column = MonitorKey.heartbeat_id if kind == "heartbeat" else MonitorKey.queue_id
    async with sessions() as session, session.begin():
        digest = await revoke_key(session, MonitorKey, key_id, now, column == monitor_id)
        if digest is None:
            raise Refused(
                f"{kind.title()} {monitor_id} has no key {key_id}; `pharos {kind} show` lists them."
            )
    told: dict[str, Any] = {"id": key_id, "revoked": True}
    with warn_if_unpublished(told):
        await directory.revoke(digest)
    return told
