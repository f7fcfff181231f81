"""Reads what routing needs: the rules of accounts, the owners of accounts, and the types of environments."""

from collections.abc import Collection, Mapping

import msgspec
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.notifications.rule_recipients import has_address
from control_domain.tables.accounts import Membership, Person
from control_domain.tables.notifications import NotificationChannel, NotificationRule
from control_domain.tables.projects import Environment
from notifications.incidents.routing import AccountRules, Recipient, Rule, default_rule

_decode_names = msgspec.json.Decoder(list[str]).decode


async def load_rules(
    session: AsyncSession, accounts: Collection[int], *, has_email: bool
) -> Mapping[int, AccountRules]:
    """Return the rules of each account. If the installation sends e-mail, they include the default rule. Channels
    that are turned off are no recipients."""
    rows = (
        await session.scalars(
            select(NotificationRule)
            .where(NotificationRule.account_id.in_(accounts))
            .order_by(NotificationRule.id)
        )
    ).all()
    enabled = set(
        await session.scalars(
            select(NotificationChannel.id).where(
                NotificationChannel.account_id.in_(accounts), NotificationChannel.enabled.is_(True)
            )
        )
    )
    rules: dict[int, list[Rule]] = {account: [] for account in accounts}
    for row in rows:
        rules[row.account_id].append(_read_rule(row, enabled))
    owners = await _read_owners(session, accounts) if has_email else {}
    return {
        account: AccountRules(of_account, default_rule(owners[account]) if account in owners else None)
        for account, of_account in rules.items()
    }


def _read_rule(row: NotificationRule, enabled_channels: Collection[int]) -> Rule:
    recipients = []
    for recipient in _decode_names(row.recipients):
        type_, _, number = recipient.partition(" ")
        if type_ == "person" or int(number) in enabled_channels:
            recipients.append(Recipient("person" if type_ == "person" else "channel", int(number)))
    return Rule(
        row.project_id,
        row.environment_id,
        None if row.kinds is None else frozenset(_decode_names(row.kinds)),
        row.min_severity,  # type: ignore[arg-type]
        recipients,
        row.reminders,
        row.enabled,
    )


async def _read_owners(session: AsyncSession, accounts: Collection[int]) -> Mapping[int, list[int]]:
    owners: dict[int, list[int]] = {}
    for account, person in await session.execute(
        select(Membership.account_id, Membership.person_id)
        .join(Person, Person.id == Membership.person_id)
        .where(Membership.account_id.in_(accounts), Membership.role == "owner", has_address())
        .order_by(Membership.person_id)
    ):
        owners.setdefault(account, []).append(person)
    return owners


async def load_environment_types(session: AsyncSession, environments: Collection[int]) -> Mapping[int, str]:
    """Return the type of each of these environments. Removed environments are left out."""
    rows = await session.execute(
        select(Environment.id, Environment.type).where(Environment.id.in_(environments))
    )
    return {row.id: row.type for row in rows}
