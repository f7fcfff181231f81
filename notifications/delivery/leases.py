"""Finds due notifications and leases them, so that one worker at a time sends each.

Several workers may use one database; a lease gives a notification to one of them. Only the database's clock sets and
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

# Literally as in the partial indexes: SQLite does not use those for a bound value.
_PENDING: ColumnElement[str] = literal_column("'pending'")
IS_PENDING = Notification.status == _PENDING

_Earlier = aliased(Notification, name="earlier")
_Sibling = aliased(Notification, name="sibling")


@dataclass(frozen=True, slots=True)
class Due:
    """A notification that may be sent now, unless another worker is faster."""

    id: int
    account_id: int
    channel_id: int | None
    person_id: int | None


async def find_due(
    session: AsyncSession, now: datetime, *, limit: int, without: Collection[int]
) -> Sequence[Due]:
    """Return notifications to send, at most one for each recipient.

    Accounts take turns, so accounts with many due notifications do not delay the others. Within an account, failing
    channels come last. `without` are accounts to skip.
    """
    row, channel = Notification, NotificationChannel
    # Usually nothing is due, and only this short query runs.
    if await session.scalar(select(row.id).where(IS_PENDING, row.next_attempt_at <= now).limit(1)) is None:
        return []
    # Read this first: before Postgres has statistics of the table, it would scan it again for each due row.
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
    """Make notifications due now whose next attempt is too far in the future because a clock was ahead when it was
    stored."""
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
        # A notification that a person sends again is no longer part of the order.
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
    """Lease the notification and return it, locked until the end of the transaction; None if it is no longer due, or
    another notification of its recipient is being sent."""
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
    """Lock the recipient before its notifications: two workers that lease two of its notifications at once would not
    see each other, and transactions that lock several of them could deadlock.

    On SQLite reads lock nothing, but the following write locks the database.
    """
    locked: Select[int] | None = None
    if channel_id is not None:
        locked = select(NotificationChannel.id).where(NotificationChannel.id == channel_id)
    elif person_id is not None:
        locked = select(Person.id).where(Person.id == person_id)
    if locked is not None:
        # Rows that refer to it may be added meanwhile.
        await session.execute(locked.with_for_update(key_share=True))


def is_leased(notification_id: int, until: datetime) -> ColumnElement[bool]:
    """SQL condition: the notification still has the lease that ends at this time."""
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
    """End the leases of all workers. Call it only if no other worker is running."""
    await session.execute(
        update(Notification)
        .where(Notification.leased_until.is_not(None))
        .values(leased_until=None)
        .execution_options(synchronize_session=False)
    )
