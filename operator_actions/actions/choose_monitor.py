"""Finds the monitor that an operator names, in all accounts."""

from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.monitors.operations import (
    HeartbeatWithState,
    QueueWithState,
    find_heartbeats,
    find_queues,
)
from control_domain.refusals import Refused


async def choose_heartbeat(session: AsyncSession, heartbeat_id: int) -> HeartbeatWithState:
    """The heartbeat of this ID. Raises `Refused`."""
    found = await find_heartbeats(session, heartbeat_id)
    if not found:
        raise _missing("heartbeat", heartbeat_id)
    return found[0]


async def choose_queue(session: AsyncSession, queue_id: int) -> QueueWithState:
    """The same for a queue."""
    found = await find_queues(session, queue_id)
    if not found:
        raise _missing("queue", queue_id)
    return found[0]


def _missing(kind: str, monitor_id: int) -> Refused:
    return Refused(f"There is no {kind} {monitor_id}; `pharos {kind} list` shows all.")
