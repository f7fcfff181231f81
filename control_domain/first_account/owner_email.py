"""The e-mail address of the first account's owner, to which the default rule sends notifications."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.notifications.destination_formats import find_email_fault
from control_domain.tables.accounts import Account, Membership, Person
from pipeline_contracts.settings import PREFIX, BadSettings, Settings

PLACEHOLDER = "owner@localhost"
"""The placeholder for an owner without an address: nothing is sent to it."""


def read_owner_email(settings: Settings) -> str | None:
    """Return the address in lower case, the form in which addresses are stored. Raises `BadSettings`."""
    if settings.owner_email is None:
        return None
    email = settings.owner_email.strip().lower()
    if (fault := find_email_fault(email)) is not None:
        raise BadSettings(f"{PREFIX}OWNER_EMAIL: {fault}")
    return email


async def replace_placeholder(
    session: AsyncSession, account: Account, email: str, actor: Actor, now: datetime
) -> None:
    """Set the address of the account's owner, unless the owner has an address already or another person has this
    one."""
    query = (
        select(Person)
        .join(Membership, Membership.person_id == Person.id)
        .where(Membership.account_id == account.id, Membership.role == "owner", Person.email == PLACEHOLDER)
        .with_for_update(of=Person)
    )
    owner = (await session.execute(query)).scalar_one_or_none()
    taken = select(Person.id).where(Person.email == email)
    if owner is None or (await session.execute(taken)).first() is not None:
        return
    owner.email = email
    subject, details = f"person {owner.public_id}", {"from": PLACEHOLDER, "to": email}
    record_audit_entry(session, actor, account.id, "person.email", subject, now, details)
    await session.flush()
