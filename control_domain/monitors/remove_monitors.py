"""Removes heartbeats and queues, with their keys and states."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, delete, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from control_domain.database.statements import lock_row
from control_domain.monitors.heartbeat_alerts import record_removal_alerts
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
from control_domain.tables.projects import Environment
from pipeline_contracts.errors import NotFound


@dataclass(frozen=True, slots=True)
class RemovedMonitors:
    """The number of removed monitors, and their keys."""

    count: int
    digests: Sequence[bytes]
    """Digests of the keys, which the edges must drop after the commit."""
    names: Sequence[str] = ()
    """The names of the removed heartbeats."""


async def remove_heartbeat(session: AsyncSession, heartbeat: Heartbeat, now: datetime) -> Sequence[bytes]:
    """Delete the heartbeat, its keys, its state and its runs. Return the digests of the keys, which the edges must
    drop after the commit. Raises `NotFound` if it was removed meanwhile."""
    removed = await remove_heartbeats(session, Heartbeat.id == heartbeat.id, now)
    if not removed.count:
        raise NotFound(f"Heartbeat {heartbeat.id} was just removed by another request.")
    return removed.digests


async def remove_queue(session: AsyncSession, queue: Queue) -> Sequence[bytes]:
    """Delete the queue, its keys, its newest snapshot and its workers, as `remove_heartbeat` does. Its history of
    snapshots stays in the column store until its retention ends."""
    removed = await remove_queues(session, Queue.id == queue.id)
    if not removed.count:
        raise NotFound(f"Queue {queue.id} was just removed by another request.")
    return removed.digests


async def remove_monitors(
    session: AsyncSession, environment: Environment, now: datetime
) -> dict[str, RemovedMonitors]:
    """Delete all monitors of the environment; return the removed monitors by kind."""
    return {
        "heartbeats": await remove_heartbeats(session, Heartbeat.environment_id == environment.id, now),
        "queues": await remove_queues(session, Queue.environment_id == environment.id),
    }


async def remove_heartbeats(
    session: AsyncSession, condition: ColumnElement[bool], now: datetime
) -> RemovedMonitors:
    """Delete the heartbeats that match the condition, as `remove_heartbeat` does."""
    # Account scope: the condition of the callers names a monitor or an environment.
    # Lock the states in the order of the consumers, which write them: another order could deadlock.
    states = select(HeartbeatState.heartbeat_id).where(
        HeartbeatState.heartbeat_id.in_(select(Heartbeat.id).where(condition))
    )
    await session.execute(states.order_by(HeartbeatState.heartbeat_id).with_for_update())
    # SQLite has no such locks. From this write on, no scan can begin an incident that this removal does not see.
    await lock_row(session, HeartbeatState.version, HeartbeatState.heartbeat_id.in_(states))
    await record_removal_alerts(session, condition, now)
    referring_columns = (
        HeartbeatState.heartbeat_id,
        HeartbeatRun.heartbeat_id,
        HeartbeatLogEntry.heartbeat_id,
        CreatedHeartbeat.heartbeat_id,
    )
    return await _remove(session, Heartbeat, condition, MonitorKey.heartbeat_id, referring_columns)


async def remove_queues(session: AsyncSession, condition: ColumnElement[bool]) -> RemovedMonitors:
    """Delete the queues that match the condition, as `remove_queue` does."""
    referring_columns = (QueueState.queue_id, QueueWorker.queue_id)
    return await _remove(session, Queue, condition, MonitorKey.queue_id, referring_columns)


async def _remove(
    session: AsyncSession,
    table: type[Heartbeat] | type[Queue],
    condition: ColumnElement[bool],
    key_column: InstrumentedAttribute[int | None],
    referring_columns: Sequence[InstrumentedAttribute[int]],
) -> RemovedMonitors:
    # Account scope: the condition of the callers names a monitor or an environment.
    mine = select(table.id).where(condition)
    # After this statement no new row can refer to the queues on Postgres; on SQLite, after the first DELETE.
    await session.execute(mine.order_by(table.id).with_for_update())
    keys = delete(MonitorKey).where(key_column.in_(mine)).returning(MonitorKey.digest)
    digests = (await session.execute(_without_synchronization(keys))).scalars().all()
    for column in referring_columns:
        await session.execute(_without_synchronization(delete(column.class_).where(column.in_(mine))))
    removed = await session.execute(
        _without_synchronization(delete(table).where(condition).returning(table.name))
    )
    names = removed.scalars().all()
    return RemovedMonitors(len(names), digests, names)


def _without_synchronization(statement: Any) -> Any:
    # Do not search the objects of the session for deleted rows.
    return statement.execution_options(synchronize_session=False)
