"""Creates, renames and removes queues for people, with audit entries."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor
from control_domain.database.errors import BrokenReference
from control_domain.database.statements import lock_row
from control_domain.monitors.find import FoundQueue
from control_domain.monitors.operations import create_queue
from control_domain.monitors.record import record_monitor_entry
from control_domain.monitors.remove_monitors import remove_queue
from control_domain.monitors.settings import check_monitor_name
from control_domain.projects.find import DeployTarget
from control_domain.tables.monitors import Queue
from pipeline_contracts.errors import NameTaken, NotFound


async def add_queue(
    session: AsyncSession, target: DeployTarget, name: str, actor: Actor, now: datetime
) -> FoundQueue:
    """Create a queue without a snapshot.

    Raises `InvalidInput`, `NameTaken`, and `Conflict` if the account has too many queues.
    """
    name = check_monitor_name(name)
    try:
        async with session.begin_nested():
            queue = await create_queue(session, target.environment, name, now)
    except BrokenReference:
        raise
    except IntegrityError:
        raise _name_taken(name) from None
    found = FoundQueue(queue, None, target.environment, target.project)
    record_monitor_entry(session, found, "create", {"name": name}, actor, now)
    return found


async def lock_queue(session: AsyncSession, queue: Queue) -> None:
    """Lock the queue until the end of the transaction, and refresh it. Raises `NotFound` if it was removed."""
    if not await lock_row(session, Queue.created_at, Queue.id == queue.id):
        raise NotFound("The account has no such queue.")
    await session.refresh(queue)


async def rename_queue(
    session: AsyncSession, found: FoundQueue, name: str, actor: Actor, now: datetime
) -> None:
    """Rename the queue, which the caller has locked. Raises `InvalidInput` and `NameTaken`."""
    queue, name = found.monitor, check_monitor_name(name)
    if name == queue.name:
        return
    details = {"name": {"from": queue.name, "to": name}}
    try:
        async with session.begin_nested():
            await session.execute(update(Queue).where(Queue.id == queue.id).values(name=name))
    except IntegrityError:
        raise _name_taken(name) from None
    record_monitor_entry(session, found, "set", details, actor, now)


async def delete_queue(
    session: AsyncSession, found: FoundQueue, actor: Actor, now: datetime
) -> Sequence[bytes]:
    """Remove the queue with its keys, its newest snapshot and its workers.

    Returns the digests of its keys, which the edges must drop after the commit. Raises `NotFound` if it was removed
    meanwhile.
    """
    digests = await remove_queue(session, found.monitor)
    record_monitor_entry(
        session, found, "remove", {"name": found.monitor.name, "keys": len(digests)}, actor, now
    )
    return digests


def _name_taken(name: str) -> NameTaken:
    return NameTaken(f"The environment has a queue with the name {name!r} already.")
