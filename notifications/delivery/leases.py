"""Which notifications are due, and who sends them: leases of single notifications.

Of several workers on one database, one at a time has a notification. A lease ends by the clock of the database only,
which also wrote its end; that time names the lease, because the next lease of the notification ends later.
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

    Accounts take turns, so that those with many due notifications do not delay the others; within an account, channels
    that fail come last. `without` are accounts to leave out.
    """
    row, channel = Notification, NotificationChannel
    # Usually nothing is due, and this short query is all.
    if await session.scalar(select(row.id).where(IS_PENDING, row.next_attempt_at <= now).limit(1)) is None:
        return []
    # Read first: Postgres, before it knows the table, would scan it again for each row that is due.
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
    """Try now what is to be tried so late only because a clock was ahead when it was written."""
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
        # What a person sends again has no place in the order any more.
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
    """Lock the recipient before its notifications: two workers that lease two of them at once would not see each
    other, and transactions that lock several of them could deadlock.

    Reads lock nothing in SQLite, and need not: the write that follows locks the database.
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
    """Let another worker send the notification at once, unless another one has it already."""
    await session.execute(
        update(Notification)
        .where(is_leased(notification_id, until))
        .values(leased_until=None)
        .execution_options(synchronize_session=False)
    )


async def release_all_leases(session: AsyncSession) -> None:
    """End the leases of all workers. Only for a caller that knows that no other worker is running."""
    await session.execute(
        update(Notification)
        .where(Notification.leased_until.is_not(None))
        .values(leased_until=None)
        .execution_options(synchronize_session=False)
    )
