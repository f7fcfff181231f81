"""Finds due notifications and leases them, so that only one worker at a time sends a notification.

Several workers may use one database. A lease gives a notification to one of them. Only the database's clock sets and
compares the end of a lease. That time also identifies the lease, because the next lease of the notification ends later.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Select, and_, exists, func, literal_column, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute, aliased

from control_domain.database.clock import database_now
from control_domain.tables.accounts import Person
from control_domain.tables.notifications import Notification, NotificationChannel
from notifications.delivery.retry_schedule import LONGEST_PAUSE

# Write the status literally, as in the partial indexes: SQLite does not use a partial index for a bound value.
_PENDING: ColumnElement[str] = literal_column("'pending'")
IS_PENDING = Notification.status == _PENDING

_Earlier = aliased(Notification, name="earlier")
_Sibling = aliased(Notification, name="sibling")


@dataclass(frozen=True, slots=True)
class Due:
    """A notification that may be sent now, unless another worker leases it first."""

    id: int
    account_id: int
    channel_id: int | None
    person_id: int | None


async def find_due(
    session: AsyncSession, now: datetime, *, limit: int, without: Collection[int]
) -> Sequence[Due]:
    """Return notifications to send, at most one for each recipient.

    Accounts take turns, so accounts with many due notifications do not delay the others. Within an account, failing
    channels come last. `without`: accounts to skip.
    """
    row, channel = Notification, NotificationChannel
    # Usually nothing is due, and only this short query runs.
    if await session.scalar(select(row.id).where(IS_PENDING, row.next_attempt_at <= now).limit(1)) is None:
        return []
    # Read this first. Before Postgres has statistics of the table, it would otherwise scan the table again for each due
    # notification.
    busy = (await session.execute(select(row.channel_id, row.person_id).where(_is_in_flight(row)))).all()
    of_recipient = func.row_number().over(
        partition_by=(row.account_id, row.channel_id, row.person_id), order_by=(row.next_attempt_at, row.id)
    )
    heads = (
        select(
            row.id,
            row.account_id,
            row.channel_id,
            row.person_id,
            row.next_attempt_at,
            channel.failing_since.is_not(None).label("is_failing"),
            of_recipient.label("place"),
        )
        .outerjoin(channel, channel.id == row.channel_id)
        .where(
            _is_due(now),
            row.account_id.not_in(without),
            _is_none_of(row.channel_id, [channel_id for channel_id, _ in busy]),
            _is_none_of(row.person_id, [person_id for _, person_id in busy]),
        )
        .subquery()
    )
    of_account = func.row_number().over(
        partition_by=heads.c.account_id,
        order_by=(heads.c.is_failing, heads.c.next_attempt_at, heads.c.id),
    )
    turns = select(heads, of_account.label("turn")).where(heads.c.place == 1).subquery()
    query = (
        select(turns.c.id, turns.c.account_id, turns.c.channel_id, turns.c.person_id)
        .order_by(turns.c.turn, turns.c.next_attempt_at, turns.c.id)
        .limit(limit)
    )
    return [Due(*row) for row in await session.execute(query)]


async def heal_times(session: AsyncSession, now: datetime) -> None:
    """Make notifications due now if their next attempt is too far in the future, because a clock was ahead when the
    time was stored."""
    await session.execute(
        update(Notification)
        .where(IS_PENDING, Notification.next_attempt_at > now + LONGEST_PAUSE)
        .values(next_attempt_at=now)
        .execution_options(synchronize_session=False)
    )


def _is_due(now: datetime) -> ColumnElement[bool]:
    row = Notification
    is_preceded = exists().where(
        _Earlier.group_id == row.group_id,
        _Earlier.id < row.id,
        _Earlier.status == _PENDING,
        # If a person sends a notification again, the notification no longer has a place in the order.
        _Earlier.requested_at.is_(None),
    )
    return and_(
        IS_PENDING,
        row.next_attempt_at <= now,
        or_(row.leased_until.is_(None), row.leased_until < database_now()),
        ~is_preceded,
    )


def _is_in_flight(row: type[Notification]) -> ColumnElement[bool]:
    return and_(row.leased_until.is_not(None), row.leased_until >= database_now())


def _is_none_of(
    column: InstrumentedAttribute[int | None], numbers: Sequence[int | None]
) -> ColumnElement[bool]:
    return or_(column.is_(None), column.not_in([number for number in numbers if number is not None]))


async def take_lease(
    session: AsyncSession, due: Due, now: datetime, lease_seconds: float
) -> Notification | None:
    """Lease the notification. Return it, locked until the end of the transaction. Return None if it is no longer due,
    or if another notification of its recipient is being sent."""
    await lock_recipient(session, due.channel_id, due.person_id)
    is_recipient_busy = exists().where(
        _is_in_flight(_Sibling),
        or_(_Sibling.channel_id == Notification.channel_id, _Sibling.person_id == Notification.person_id),
    )
    leased: Notification | None = await session.scalar(
        update(Notification)
        .where(Notification.id == due.id, _is_due(now), ~is_recipient_busy)
        .values(leased_until=database_now(lease_seconds))
        .returning(Notification)
        .execution_options(synchronize_session=False)
    )
    return leased


async def lock_recipient(session: AsyncSession, channel_id: int | None, person_id: int | None) -> None:
    """Lock the recipient before its notifications: otherwise two workers could lease two notifications of the same
    recipient without seeing each other, and transactions that lock several notifications could deadlock.

    On SQLite, reads lock nothing, but the write that follows locks the database.
    """
    locked: Select[int] | None = None
    if channel_id is not None:
        locked = select(NotificationChannel.id).where(NotificationChannel.id == channel_id)
    elif person_id is not None:
        locked = select(Person.id).where(Person.id == person_id)
    if locked is not None:
        # Rows that refer to the recipient may be added meanwhile.
        await session.execute(locked.with_for_update(key_share=True))


def is_leased(notification_id: int, until: datetime) -> ColumnElement[bool]:
    """Return an SQL condition: the notification still has the lease that ends at this time."""
    return and_(Notification.id == notification_id, Notification.leased_until == until)


async def release_lease(session: AsyncSession, notification_id: int, until: datetime) -> None:
    """End the lease, so that another worker can send the notification at once. Does nothing if another worker has
    leased it already."""
    await session.execute(
        update(Notification)
        .where(is_leased(notification_id, until))
        .values(leased_until=None)
        .execution_options(synchronize_session=False)
    )


async def release_all_leases(session: AsyncSession) -> None:
    """End the leases of all workers. Call this only if no other worker is running."""
    await session.execute(
        update(Notification)
        .where(Notification.leased_until.is_not(None))
        .values(leased_until=None)
        .execution_options(synchronize_session=False)
    )
