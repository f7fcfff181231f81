"""Finds the person of a sign-in link or an invitation, so that a page can show the person before it is used."""

from datetime import datetime
from typing import Annotated, TypedDict, cast

from msgspec import Meta
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.describe import (
    AccountSummary,
    PersonSummary,
    summarize_account,
    summarize_person,
)
from control_domain.accounts.roles import AccountRole
from control_domain.invitations.accept import find_usable_invitation
from control_domain.sign_in.links import find_link
from control_domain.sign_in.passwords import read_password_hash
from control_domain.tables.accounts import Person
from pipeline_contracts.times import format_time


class LinkOwner(TypedDict):
    """The person of a sign-in link."""

    person: PersonSummary
    has_password: Annotated[
        bool, Meta(description="True if the person has a password, which the link replaces.")
    ]
    expires_at: str


class InvitedPerson(TypedDict):
    """The invited person, and the access that the invitation gives."""

    account: AccountSummary
    email: Annotated[str, Meta(description="The address that the person joins with.")]
    role: Annotated[AccountRole, Meta(description="The role in the account.")]
    invited_by: PersonSummary
    has_password: Annotated[
        bool, Meta(description="True if the person already has a password here and joins with it.")
    ]
    expires_at: str


async def describe_link(session: AsyncSession, secret: str, now: datetime) -> LinkOwner:
    """Return the person of a link. Raises `NotFound` for a link that cannot be used."""
    link, person = await find_link(session, secret, now)
    return {
        "person": summarize_person(person),
        "has_password": await read_password_hash(session, person.id) is not None,
        "expires_at": format_time(link.expires_at),
    }


async def describe_invitation(session: AsyncSession, secret: str, now: datetime) -> InvitedPerson:
    """Return the person and the access of an invitation. Raises `NotFound` for an invitation that cannot be used."""
    invitation, account = await find_usable_invitation(session, secret, now)
    inviter = await session.get_one(Person, invitation.invited_by_id)
    query = select(Person).where(Person.email == invitation.email)
    person = (await session.execute(query)).scalar_one_or_none()
    return {
        "account": summarize_account(account),
        "email": invitation.email,
        "role": cast(AccountRole, invitation.role),
        "invited_by": summarize_person(inviter),
        "has_password": person is not None and await read_password_hash(session, person.id) is not None,
        "expires_at": format_time(invitation.expires_at),
    }
