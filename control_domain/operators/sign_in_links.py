"""Sign-in links that an operator of the machine makes: for the first person, and for people who have lost a
password."""

from datetime import datetime
from typing import TypedDict

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.describe import PersonSummary, summarize_person
from control_domain.audit import Actor, record_audit_entry
from control_domain.database.engine import Sessions
from control_domain.sign_in.links import create_link
from control_domain.sign_in.memberships import list_accounts_of
from control_domain.sign_in.passwords import has_any_password
from control_domain.tables.accounts import Membership, Person
from pipeline_contracts.errors import Conflict, NotFound
from pipeline_contracts.times import format_time


class CreatedSignInLink(TypedDict):
    """A new link; the secret `link` is shown here only."""

    person: PersonSummary
    link: str
    expires_at: str


async def create_sign_in_link(
    session: AsyncSession, email: str | None, actor: Actor, now: datetime
) -> CreatedSignInLink:
    """Create a link for the person with this address; for None, for the only owner in the installation.

    Using the link also removes the person's second factor. Raises `NotFound` and `Conflict`.
    """
    person = await (_find_owner(session) if email is None else _find_person(session, email))
    accounts = await list_accounts_of(session, person.id)
    if not accounts:
        raise NotFound(f"{person.email} is a member of no account.")
    link = await create_link(session, person, None, now)
    details = {"expires_at": format_time(link.expires_at)}
    for account, _ in accounts:
        subject = f"person {person.public_id}"
        record_audit_entry(session, actor, account.id, "sign-in-link.create", subject, now, details)
    return {
        "person": summarize_person(person),
        "link": link.secret,
        "expires_at": format_time(link.expires_at),
    }


async def _find_person(session: AsyncSession, email: str) -> Person:
    # Addresses are stored in lower case.
    query = select(Person).where(Person.email == email.strip().lower())
    person = (await session.execute(query)).scalar_one_or_none()
    if person is None:
        raise NotFound(f"Nobody has the address {email}.")
    return person


async def _find_owner(session: AsyncSession) -> Person:
    # Account scope: the operator may name anybody in the installation.
    query = (
        select(Person)
        .where(Person.id.in_(select(Membership.person_id).where(Membership.role == "owner")))
        .order_by(Person.id)
        .limit(20)
    )
    owners = (await session.execute(query)).scalars().all()
    if not owners:
        raise NotFound("There is no account yet, and so no owner.")
    if len(owners) > 1:
        emails = ", ".join(person.email for person in owners)
        raise Conflict(f"There are several owners. Name one of them: {emails}.")
    return owners[0]


async def has_nobody_signed_in(sessions: Sessions) -> bool:
    """Return True if nobody has a password yet: the first person needs a link."""
    async with sessions() as session:
        return not await has_any_password(session)


async def create_first_link(sessions: Sessions, actor: Actor, now: datetime) -> str | None:
    """Return the secret of a link for the first owner while nobody has a password; None afterwards."""
    async with sessions() as session, session.begin():
        if await has_any_password(session):
            return None
        query = (
            select(Person.email)
            .join(Membership, Membership.person_id == Person.id)
            .where(Membership.role == "owner")
            .order_by(Membership.account_id, Person.id)
            .limit(1)
        )
        email = (await session.execute(query)).scalar_one_or_none()
        if email is None:
            return None
        return (await create_sign_in_link(session, email, actor, now))["link"]
