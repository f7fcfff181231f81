"""Makes groups due at once after a change of the silences or quiet hours that hold them."""

from datetime import datetime

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.tables.notifications import NotificationGroup


async def wake_groups(
    session: AsyncSession, account_id: int | None, now: datetime, *conditions: ColumnElement[bool]
) -> None:
    """Make the account's groups that wait for a time due now. The group worker then computes their next time again.

    Call it after the change was written. A group that is due already is locked as well: the group worker may be
    processing it with values from before the change.

    `account_id` None stands for the groups of all accounts, for a change of a person.
    """
    if account_id is not None:
        conditions = (NotificationGroup.account_id == account_id, *conditions)
    # In the order in which the incident worker locks groups. SQLite ignores the lock, and has one writer.
    waiting = (
        select(NotificationGroup.id)
        .where(NotificationGroup.due_at.is_not(None), *conditions)
        .order_by(NotificationGroup.id)
        .with_for_update()
    )
    numbers = (await session.scalars(waiting)).all()
    for begin in range(0, len(numbers), 1000):
        await session.execute(
            update(NotificationGroup)
            .where(NotificationGroup.id.in_(numbers[begin : begin + 1000]))
            .values(due_at=now)
            .execution_options(synchronize_session=False)
        )


async def look_at_groups(session: AsyncSession, channel_id: int, now: datetime) -> None:
    """Make all groups of a channel due now, also those that wait for no time."""
    await session.execute(
        update(NotificationGroup)
        .where(NotificationGroup.channel_id == channel_id)
        .values(due_at=now)
        .execution_options(synchronize_session=False)
    )
