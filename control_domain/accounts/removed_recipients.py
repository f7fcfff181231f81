"""Removes a channel or a former member from the notification rules of an account, and cancels unsent notifications."""

import json
from typing import Literal

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.tables.notifications import (
    Notification,
    NotificationGroup,
    NotificationMember,
    NotificationRule,
)

RecipientKind = Literal["channel", "person"]


async def remove_from_rules(session: AsyncSession, account_id: int, kind: RecipientKind, number: int) -> int:
    """Remove the recipient from all rules of the account, and return the number of rules that named it.

    A rule that is left without recipients stays: somebody else can be named in it.
    """
    name = f"{kind} {number}"
    query = (
        select(NotificationRule)
        .where(
            NotificationRule.account_id == account_id,
            NotificationRule.recipients.contains(f'"{name}"', autoescape=True),
        )
        .order_by(NotificationRule.id)
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    rules = (await session.scalars(query)).all()
    for rule in rules:
        rule.recipients = json.dumps([each for each in json.loads(rule.recipients) if each != name])
    await session.flush()
    return len(rules)


async def cancel_messages(
    session: AsyncSession, account_id: int, kind: RecipientKind, number: int, why: str
) -> None:
    """Cancel the recipient's unsent notifications and delete their groups, so that no message follows, not even one
    about the end of an incident. Sent notifications stay listed."""
    of_notification = Notification.channel_id if kind == "channel" else Notification.person_id
    await session.execute(
        update(Notification)
        .where(
            Notification.account_id == account_id, of_notification == number, Notification.status == "pending"
        )
        .values(status="canceled", last_error=why, leased_until=None)
        .execution_options(synchronize_session=False)
    )
    of_group = NotificationGroup.channel_id if kind == "channel" else NotificationGroup.person_id
    groups = select(NotificationGroup.id).where(
        NotificationGroup.account_id == account_id, of_group == number
    )
    # While these groups are locked, the group worker writes no message from them.
    await session.execute(groups.order_by(NotificationGroup.id).with_for_update())
    await session.execute(
        delete(NotificationMember)
        .where(NotificationMember.group_id.in_(groups))
        .execution_options(synchronize_session=False)
    )
    await session.execute(
        delete(NotificationGroup)
        .where(NotificationGroup.account_id == account_id, of_group == number)
        .execution_options(synchronize_session=False)
    )
