"""Finds the person of a sign-in link or an invitation, so that a page can show the person before it is used."""

from datetime import datetime
from typing import Annotated, TypedDict, cast

from msgspec import Meta
from sqlalchemy import or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.describe import (
    AccountSummary,
    PersonSummary,
    summarize_account,
    summarize_person,
)
from control_domain.accounts.roles import AccountRole
from control_domain.invitations.accept import find_usable_invitation
from control_domain.sign_in.identities import list_identities
from control_domain.sign_in.links import find_link
from control_domain.sign_in.passwords import read_password_hash
from control_domain.sign_in.sessions import list_sessions
from control_domain.tables.accounts import Account, ApiToken, Person
from pipeline_contracts.times import format_time


class LinkOwner(TypedDict):
    """The person of a sign-in link."""

    person: PersonSummary
    has_password: Annotated[
        bool, Meta(description="True if the person has a password, which the link replaces.")
    ]
    first_sign_in: Annotated[
        bool,
        Meta(
            description="True if the person has no password, has not signed in by a provider, and has no session and "
            "no API token besides the one that the installation made with the account."
        ),
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
    has_password = await read_password_hash(session, person.id) is not None
    return {
        "person": summarize_person(person),
        "has_password": has_password,
        "first_sign_in": not has_password and not await _has_access(session, person.id, now),
        "expires_at": format_time(link.expires_at),
    }


async def _has_access(session: AsyncSession, person_id: int, now: datetime) -> bool:
    """Return True if somebody may act as the person already: by an identity at a provider, a session or a token."""
    # Account scope: the link is for the person, in all accounts.
    tokens = (
        select(ApiToken.id)
        .join(Account, Account.id == ApiToken.account_id)
        .where(
            ApiToken.person_id == person_id,
            ApiToken.revoked_at.is_(None),
            or_(ApiToken.expires_at.is_(None), ApiToken.expires_at > now),
            # The first owner's token for the command line is made in one transaction with the account, before anybody
            # has signed in.
            ApiToken.created_at != Account.created_at,
        )
        .limit(1)
    )
    return bool(
        await list_identities(session, person_id)
        or await list_sessions(session, person_id, now)
        or (await session.execute(tokens)).first()
    )


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
