"""Reads what routing needs: the rules of accounts, their owners, and the types of environments."""

from collections.abc import Collection, Mapping

import msgspec
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.tables.accounts import Membership
from control_domain.tables.notifications import NotificationRule
from control_domain.tables.projects import Environment
from notifications.incidents.routing import Recipient, Rule, default_rule

_decode_names = msgspec.json.Decoder(list[str]).decode


async def load_rules(
    session: AsyncSession, accounts: Collection[int], *, has_email: bool
) -> Mapping[int, list[Rule]]:
    """Return the enabled rules of each account. Without any rule an account has the default one, if the installation
    sends e-mail."""
    rules: dict[int, list[Rule]] = {account: [] for account in accounts}
    with_rules = set()
    for row in await session.scalars(
        select(NotificationRule)
        .where(NotificationRule.account_id.in_(accounts))
        .order_by(NotificationRule.id)
    ):
        with_rules.add(row.account_id)
        if row.enabled:
            rules[row.account_id].append(_read_rule(row))
    if has_email:
        await _add_default_rules(session, rules, [each for each in accounts if each not in with_rules])
    return rules


def _read_rule(row: NotificationRule) -> Rule:
    recipients = []
    for recipient in _decode_names(row.recipients):
        type_, _, number = recipient.partition(" ")
        recipients.append(Recipient("channel" if type_ == "channel" else "person", int(number)))
    return Rule(
        row.project_id,
        row.environment_id,
        None if row.kinds is None else frozenset(_decode_names(row.kinds)),
        row.min_severity,  # type: ignore[arg-type]
        recipients,
        row.reminders,
    )


async def _add_default_rules(
    session: AsyncSession, rules: dict[int, list[Rule]], accounts: Collection[int]
) -> None:
    owners: dict[int, list[int]] = {}
    for account, person in await session.execute(
        select(Membership.account_id, Membership.person_id)
        .where(Membership.account_id.in_(accounts), Membership.role == "owner")
        .order_by(Membership.person_id)
    ):
        owners.setdefault(account, []).append(person)
    for account, people in owners.items():
        rules[account].append(default_rule(people))


async def load_environment_types(session: AsyncSession, environments: Collection[int]) -> Mapping[int, str]:
    """Return the type of each of these environments that still exists."""
    rows = await session.execute(
        select(Environment.id, Environment.type).where(Environment.id.in_(environments))
    )
    return {row.id: row.type for row in rows}
