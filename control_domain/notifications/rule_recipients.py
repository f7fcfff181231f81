"""The recipients of a rule: channels of the account, and people by e-mail."""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.roles import Right, is_allowed
from control_domain.database.public_ids import matches_id
from control_domain.tables.accounts import Account, Membership, Person
from control_domain.tables.notifications import NotificationChannel, NotificationRule
from control_domain.tables.projects import Project, ProjectRole
from pipeline_contracts.errors import FieldError, invalid_fields

MAX_RECIPIENTS = 50


class Recipients(NamedTuple):
    """Channels and people by the numbers of their rows."""

    channels: Mapping[int, NotificationChannel]
    people: Mapping[int, Person]


async def check_recipients(
    session: AsyncSession, account: Account, project: Project | None, given: Sequence[tuple[str, str]]
) -> list[str]:
    """Return recipients in the form that rules store. `given`: `channel` or `person`, and a number or public ID.

    Raises `InvalidInput` for a recipient that the account does not have, and for a person who may not read the
    project.
    """
    errors: list[FieldError] = []
    found: list[str] = []
    for position, (kind, number_or_id) in enumerate(given):
        number = (
            await _find_channel(session, account, number_or_id)
            if kind == "channel"
            else await _find_person(session, account, project, number_or_id)
        )
        if number is None:
            what = (
                "is not a channel of the account"
                if kind == "channel"
                else "is not a person in the account"
                if project is None
                else "is not a person who may read the project"
            )
            errors.append(FieldError(f"recipients[{position}].{kind}", what))
        elif (name := f"{kind} {number}") not in found:
            found.append(name)
    if errors:
        raise invalid_fields(errors)
    return found


async def _find_channel(session: AsyncSession, account: Account, number_or_id: str) -> int | None:
    table = NotificationChannel
    query = select(table.id).where(
        table.account_id == account.id, matches_id(table.id, table.public_id, number_or_id)
    )
    return (await session.execute(query)).scalar_one_or_none()


async def _find_person(
    session: AsyncSession, account: Account, project: Project | None, number_or_id: str
) -> int | None:
    query = (
        select(Person.id, Membership.role)
        .join(Membership, Membership.person_id == Person.id)
        .where(Membership.account_id == account.id, matches_id(Person.id, Person.public_id, number_or_id))
    )
    row = (await session.execute(query)).one_or_none()
    if row is None:
        return None
    if project is not None:
        of_person = (ProjectRole.project_id == project.id, ProjectRole.person_id == row.id)
        role = (await session.execute(select(ProjectRole.role).where(*of_person))).scalar_one_or_none()
        if not is_allowed(row.role, role, Right.READ):
            return None
    number: int = row.id
    return number


async def load_recipients(
    session: AsyncSession, account: Account, rules: Sequence[NotificationRule]
) -> Recipients:
    """Return all channels and people that the rules name and the account still has."""
    numbers: dict[str, set[int]] = {"channel": set(), "person": set()}
    for rule in rules:
        for name in json.loads(rule.recipients):
            kind, _, number = name.partition(" ")
            numbers[kind].add(int(number))
    channels = select(NotificationChannel).where(
        NotificationChannel.account_id == account.id, NotificationChannel.id.in_(numbers["channel"])
    )
    people = (
        select(Person)
        .join(Membership, Membership.person_id == Person.id)
        .where(Membership.account_id == account.id, Person.id.in_(numbers["person"]))
    )
    return Recipients(
        {channel.id: channel for channel in await session.scalars(channels)},
        {person.id: person for person in await session.scalars(people)},
    )


def has_address() -> ColumnElement[bool]:
    """Return the condition that the person has a real address: the owner of the first account may have a
    placeholder."""
    return Person.email.not_like("%@localhost")


async def list_owners(session: AsyncSession, account: Account) -> Sequence[Person]:
    """Return the owners whom the default rule notifies."""
    query = (
        select(Person)
        .join(Membership, Membership.person_id == Person.id)
        .where(Membership.account_id == account.id, Membership.role == "owner", has_address())
        .order_by(Person.id)
    )
    return (await session.scalars(query)).all()


def explain_nobody(owners: Sequence[Person], *, sends_email: bool) -> str | None:
    """Return why the default rule notifies nobody, and what to do; None if it notifies the owners."""
    if sends_email and owners:
        return None
    missing = [] if sends_email else ["PHAROS_SMTP_URL"]
    if not owners:
        missing.append("PHAROS_OWNER_EMAIL")
    what = "the installation sends no e-mail" if not sends_email else "no owner has an e-mail address"
    return f"Nobody is notified: {what}. Set {' and '.join(missing)}, or make a rule."
