"""Heartbeats and queues end, with their keys and what is known of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, delete, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from control_domain.refusals import Refused
from control_domain.tables.monitors import (
    Heartbeat,
    HeartbeatRun,
    HeartbeatState,
    MonitorKey,
    Queue,
    QueueState,
    QueueWorker,
)
from control_domain.tables.projects import Environment


@dataclass(frozen=True, slots=True)
class RemovedMonitors:
    """What went."""

    count: int
    digests: Sequence[bytes]
    """Of the keys that the edges have to forget, once this is committed."""


async def remove_heartbeat(session: AsyncSession, heartbeat: Heartbeat) -> Sequence[bytes]:
    """Delete the heartbeat, its keys, its state and its runs; gives the digests that the edges have to forget after the
    commit. Raises `Refused` where it was removed since it was looked for."""
    removed = await remove_heartbeats(session, Heartbeat.id == heartbeat.id)
    if not removed.count:
        raise Refused(f"Heartbeat {heartbeat.id} was removed by somebody else just now.")
    return removed.digests


async def remove_queue(session: AsyncSession, queue: Queue) -> Sequence[bytes]:
    """Delete the queue, its keys, its newest snapshot and its workers; the same besides. The history of its snapshots
    stays in the column store until its time is over."""
    removed = await remove_queues(session, Queue.id == queue.id)
    if not removed.count:
        raise Refused(f"Queue {queue.id} was removed by somebody else just now.")
    return removed.digests


async def remove_monitors(session: AsyncSession, environment: Environment) -> dict[str, RemovedMonitors]:
    """Delete all monitors of the environment; return what was removed by kind."""
    return {
        "heartbeats": await remove_heartbeats(session, Heartbeat.environment_id == environment.id),
        "queues": await remove_queues(session, Queue.environment_id == environment.id),
    }


async def remove_heartbeats(session: AsyncSession, which: ColumnElement[bool]) -> RemovedMonitors:
    """Delete the heartbeats that a condition holds for, as `remove_heartbeat` does."""
    # The consumers write states: in their order, so that nobody waits crosswise. What they have begun is waited for.
    states = select(HeartbeatState.heartbeat_id).where(
        HeartbeatState.heartbeat_id.in_(select(Heartbeat.id).where(which))
    )
    await session.execute(states.order_by(HeartbeatState.heartbeat_id).with_for_update())
    referring = (HeartbeatState.heartbeat_id, HeartbeatRun.heartbeat_id)
    return await _remove(session, Heartbeat, which, MonitorKey.heartbeat_id, referring)


async def remove_queues(session: AsyncSession, which: ColumnElement[bool]) -> RemovedMonitors:
    """Delete the queues that a condition holds for, as `remove_queue` does."""
    referring = (QueueState.queue_id, QueueWorker.queue_id)
    return await _remove(session, Queue, which, MonitorKey.queue_id, referring)


async def _remove(
    session: AsyncSession,
    table: type[Heartbeat] | type[Queue],
    which: ColumnElement[bool],
    key_of: InstrumentedAttribute[int | None],
    referring: Sequence[InstrumentedAttribute[int]],
) -> RemovedMonitors:
    # Account scope: the condition of the callers names a monitor or an environment.
    mine = select(table.id).where(which)
    # Postgres: nothing new refers to them from here on, keys included. SQLite: from the first delete on.
    await session.execute(mine.order_by(table.id).with_for_update())
    keys = delete(MonitorKey).where(key_of.in_(mine)).returning(MonitorKey.digest)
    digests = (await session.execute(_as_it_is(keys))).scalars().all()
    for column in referring:
        await session.execute(_as_it_is(delete(column.class_).where(column.in_(mine))))
    gone = await session.execute(_as_it_is(delete(table).where(which).returning(table.id)))
    return RemovedMonitors(len(gone.all()), digests)


def _as_it_is(statement: Any) -> Any:
    # What the session has read of them is not looked through.
    return statement.execution_options(synchronize_session=False)
