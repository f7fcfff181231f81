"""Accepts invitations. The secret of an invitation works once, and only its holder knows it."""

from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import (
    add_api_token,
    add_membership,
    create_person,
    lock_account_row,
)
from control_domain.accounts.roles import SCOPES
from control_domain.accounts.tokens import record_token_creation
from control_domain.audit import Actor, record_audit_entry
from control_domain.database.errors import BrokenReference
from control_domain.invitations.describe import (
    AcceptedInvitation,
    describe_accepted,
    get_invitation_state,
    read_project_roles,
)
from control_domain.projects.operations import grant_role
from control_domain.slugs import MAX_NAME_LENGTH, check_name
from control_domain.tables.accounts import Account, Membership, Person
from control_domain.tables.invitations import Invitation
from control_domain.tables.projects import Project
from pipeline_contracts.credentials import CredentialKind, digest_credential, is_well_formed
from pipeline_contracts.errors import Conflict, NotFound, invalid_field

# One text for all causes: it must not tell a guesser which secrets were valid.
_UNUSABLE = (
    "This invitation is not known, has expired, was revoked, or was used already. Ask the person who invited you for "
    "another one."
)


class Joined(NamedTuple):
    """A person who has joined an account."""

    invitation: Invitation
    account: Account
    person: Person
    is_new: bool
    """False for a person who is in another account or was in this one before."""


async def accept_invitation(
    session: AsyncSession, secret: str, name: str | None, actor: Actor, now: datetime
) -> AcceptedInvitation:
    """Add the invited person to the account and create the person's first API token. The secret works once.

    A person who is in another account keeps the name from there. `actor` says where the request came from. Raises
    `NotFound` for a secret that cannot be used, whatever the cause, `Conflict` for an invitation that does not give
    all scopes, and `InvalidInput` for a new person without a name.
    """
    invitation, account, person, _ = await join_account(session, secret, name, actor, now)
    actor = replace(actor, person_id=person.id)
    called = f"made {now:%Y-%m-%d} by accepting an invitation"
    token, api_token = await add_api_token(session, account, person, called, invitation.scopes.split(), now)
    record_token_creation(session, token, person, actor, now)
    return describe_accepted(person, account, invitation.role, api_token)


async def join_account(
    session: AsyncSession, secret: str, name: str | None, actor: Actor, now: datetime
) -> Joined:
    """Add the invited person to the account, without an API token. The secret works once.

    Raises what `accept_invitation` raises.
    """
    if name is not None:
        name = check_name(name)
    invitation, account = await _find_invitation(session, secret)
    return await join_by_invitation(session, invitation, account, name, actor, now)


async def join_by_invitation(
    session: AsyncSession,
    invitation: Invitation,
    account: Account,
    name: str | None,
    actor: Actor,
    now: datetime,
) -> Joined:
    """Add the invited person to the account, after its identity was proved. Raises what `accept_invitation` raises."""
    check_scopes(invitation)
    await _use_invitation(session, invitation, account, now)
    person, is_new = await _add_person(session, account, invitation, name, now)
    actor = replace(actor, person_id=person.id)
    details = {"role": invitation.role, "invitation": invitation.id}
    subject = f"person {person.public_id}"
    record_audit_entry(session, actor, account.id, "person.add", subject, now, details)
    await _grant_project_roles(session, account, invitation, person, actor, now)
    await session.execute(
        update(Invitation)
        .where(Invitation.id == invitation.id)
        .values(accepted_by_id=person.id)
        .execution_options(synchronize_session=False)
    )
    return Joined(invitation, account, person, is_new)


def check_scopes(invitation: Invitation) -> None:
    """Raise `Conflict` unless the invitation gives all scopes: a member can sign in, and a session has all of them.

    Earlier versions made invitations with fewer.
    """
    if not set(invitation.scopes.split()).issuperset(SCOPES):
        raise Conflict(
            "This invitation was made with an API token that does not have all scopes, and no longer works. "
            "Ask for another one."
        )


def check_name_of_new(invitation: Invitation, name: str | None) -> str:
    """Return the name of an invited person who is not known yet. Raises `InvalidInput`."""
    if name is None:
        rule = f"must be 1 to {MAX_NAME_LENGTH} printable characters"
        raise invalid_field("name", f"is required, because {invitation.email} is not known yet; {rule}")
    return check_name(name)


async def find_usable_invitation(
    session: AsyncSession, secret: str, now: datetime
) -> tuple[Invitation, Account]:
    """Return the pending invitation with this secret, and its account. Raises `NotFound`."""
    invitation, account = await _find_invitation(session, secret)
    if get_invitation_state(invitation, now) != "pending":
        raise NotFound(_UNUSABLE)
    return invitation, account


async def _find_invitation(session: AsyncSession, secret: str) -> tuple[Invitation, Account]:
    if not is_well_formed(secret, CredentialKind.INVITATION):
        raise NotFound(_UNUSABLE)
    # Account scope: the secret names the account.
    query = (
        select(Invitation, Account)
        .join(Account, Account.id == Invitation.account_id)
        .where(Invitation.digest == digest_credential(secret))
    )
    row = (await session.execute(query)).one_or_none()
    if row is None:
        raise NotFound(_UNUSABLE)
    return row[0], row[1]


async def _use_invitation(
    session: AsyncSession, invitation: Invitation, account: Account, now: datetime
) -> None:
    """Lock the account of the invitation, and mark the invitation as accepted. Raises `NotFound`."""
    # Lock the account before the invitation, in the same order as all other code that changes invitations.
    await lock_account_row(session, account)
    used = await session.execute(
        update(Invitation)
        .where(
            Invitation.id == invitation.id,
            Invitation.accepted_at.is_(None),
            Invitation.revoked_at.is_(None),
            Invitation.expires_at > now,
        )
        .values(accepted_at=now)
        .returning(Invitation.id)
        .execution_options(synchronize_session=False)
    )
    if used.scalar_one_or_none() is None:
        raise NotFound(_UNUSABLE)


async def _add_person(
    session: AsyncSession, account: Account, invitation: Invitation, name: str | None, now: datetime
) -> tuple[Person, bool]:
    """Add the invited person to the account. Return the person, and True for one who was not known before.

    Raises `NotFound` for a member, and `InvalidInput`.
    """
    query = select(Person).where(Person.email == invitation.email)
    person = (await session.execute(query)).scalar_one_or_none()
    if person is None:
        name = check_name_of_new(invitation, name)
        try:
            async with session.begin_nested():
                person = await create_person(session, account, name, invitation.email, invitation.role, now)
            return person, True
        except BrokenReference:
            raise
        except IntegrityError:
            # The person has joined another account at the same time.
            person = (await session.execute(query)).scalar_one()
    member = select(Membership.id).where(
        Membership.account_id == account.id, Membership.person_id == person.id
    )
    if (await session.execute(member)).first() is not None:
        # Members are not invited. If an invitation exists anyway, a token for it would let the holder of the secret
        # act in the member's name.
        raise NotFound(_UNUSABLE)
    await add_membership(session, account, person, invitation.role)
    return person, False


async def _grant_project_roles(
    session: AsyncSession,
    account: Account,
    invitation: Invitation,
    person: Person,
    actor: Actor,
    now: datetime,
) -> None:
    """Give the person the roles in projects; projects that were removed meanwhile are left out."""
    roles = read_project_roles(invitation)
    # The account is locked, so no project is removed before the end of the transaction.
    query = (
        select(Project).where(Project.account_id == account.id, Project.id.in_(roles)).order_by(Project.id)
    )
    for project in (await session.execute(query)).scalars().all():
        role = roles[project.id]
        await grant_role(session, project, person, role)
        details = {"person": person.public_id, "from": None, "to": role}
        subject = f"project {project.public_id}"
        record_audit_entry(session, actor, account.id, "project.grant", subject, now, details)
