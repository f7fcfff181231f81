"""Removes a channel or a former member from the rules of an account."""

import json
from typing import Literal

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.tables.notifications import NotificationRule


async def remove_recipient(
    session: AsyncSession, account_id: int, kind: Literal["channel", "person"], number: int
) -> int:
    """Remove the recipient from all rules of the account, and return how many named it.

    A rule that is left without recipients stays, and notifies nobody: deleting the last rule of an account would bring
    back the default one.
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
