"""Deletes the history of notifications and incidents after 90 days, in small transactions."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta

from sqlalchemy import ColumnElement, and_, delete, exists, or_, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from control_domain.database.engine import Sessions
from control_domain.database.old_rows import is_older
from control_domain.database.run_periodically import run_periodically
from control_domain.tables.notifications import (
    AlertIncident,
    Notification,
    NotificationAttempt,
    NotificationGroup,
    NotificationMember,
    NotificationSilence,
)
from notifications.delivery.leases import IS_PENDING

logger = logging.getLogger(__name__)

RETENTION = timedelta(days=90)
"""How long notifications, ended incidents and ended silences are kept."""
_EVERY_SECONDS = 3600.0
# Number of rows to delete in one transaction. On SQLite, a transaction blocks all other writers.
_BATCH = 500

DeleteBatch = Callable[[AsyncSession, datetime], Awaitable[int]]
"""Deletes rows that are older than a time. Returns their number."""


async def prune_history(sessions: Sessions, now: datetime) -> int:
    """Delete history that is older than `RETENTION`. Return the total number of deleted notifications, incidents,
    groups and silences."""
    deleted = 0
    for delete_batch in (_delete_notifications, _delete_incidents, _delete_groups, _delete_silences):
        while True:
            async with sessions() as session, session.begin():
                batch = await delete_batch(session, now - RETENTION)
            deleted += batch
            if batch < _BATCH:
                break
            # Pause, so that others can write.
            await asyncio.sleep(0.05)
    return deleted


async def _delete_notifications(session: AsyncSession, before: datetime) -> int:
    is_old = await is_older(session, Notification.id, Notification.created_at, before)
    ended = select(Notification.id).where(is_old, ~IS_PENDING)
    numbers = (await session.scalars(ended.order_by(Notification.id).limit(_BATCH))).all()
    await _delete(session, NotificationAttempt.notification_id, numbers)
    await _delete(session, Notification.id, numbers)
    return len(numbers)


async def _delete_incidents(session: AsyncSession, before: datetime) -> int:
    is_old = await is_older(session, AlertIncident.id, AlertIncident.started_at, before)
    ended = select(AlertIncident.id).where(
        is_old, AlertIncident.open_key.is_(None), AlertIncident.changed_at < before
    )
    numbers = (await session.scalars(ended.order_by(AlertIncident.id).limit(_BATCH))).all()
    # These members belong to incidents whose resolution was never sent, because the recipient was turned off.
    await _delete(session, NotificationMember.incident_id, numbers)
    await _delete(session, AlertIncident.id, numbers)
    return len(numbers)


async def _delete_groups(session: AsyncSession, before: datetime) -> int:
    """Delete groups that have nothing to send: otherwise the groups of removed environments would only grow in
    number. A group that has never sent anything is deleted at once, because its next message needs no history."""
    group = NotificationGroup
    is_idle = and_(
        group.due_at.is_(None),
        or_(group.sent_at.is_(None), group.sent_at < before),
        ~exists().where(NotificationMember.group_id == group.id),
    )
    numbers = (await session.scalars(select(group.id).where(is_idle).limit(_BATCH))).all()
    # An incident may have been added to the group meanwhile.
    await _delete(session, group.id, numbers, is_idle)
    return len(numbers)


async def _delete_silences(session: AsyncSession, before: datetime) -> int:
    ended = select(NotificationSilence.id).where(NotificationSilence.ends_at < before)
    numbers = (await session.scalars(ended.limit(_BATCH))).all()
    await _delete(session, NotificationSilence.id, numbers)
    return len(numbers)


async def _delete(
    session: AsyncSession,
    column: InstrumentedAttribute[int],
    numbers: Sequence[int],
    *conditions: ColumnElement[bool],
) -> None:
    if not numbers:
        return
    statement = delete(column.class_).where(column.in_(numbers), *conditions)
    await session.execute(statement.execution_options(synchronize_session=False))


async def prune_periodically(
    sessions: Sessions, stop: asyncio.Event, *, every: float = _EVERY_SECONDS
) -> None:
    """Delete old history every hour, until `stop` is set."""
    await run_periodically(
        lambda: prune_history(sessions, datetime.now(UTC)),
        stop,
        every=every,
        logger=logger,
        outage="old notifications cannot be deleted: the database is unreachable",
        fault="old notifications could not be deleted",
    )
