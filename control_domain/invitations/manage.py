"""Creates, lists and revokes invitations for owners and admins, with audit entries."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.email_addresses import check_email
from control_domain.accounts.operations import Caller
from control_domain.accounts.rights import require_account_right, require_all_scopes
from control_domain.accounts.roles import SCOPES, AccountRight, AccountRole
from control_domain.audit import Actor, record_audit_entry
from control_domain.database.public_ids import matches_id, parse_number
from control_domain.invitations.describe import InvitationState, InvitationWithPerson
from control_domain.paging import Page
from control_domain.projects.members import RoleName
from control_domain.tables.accounts import Account, Membership, Person
from control_domain.tables.invitations import Invitation
from control_domain.tables.projects import Project
from pipeline_contracts.credentials import CredentialKind, digest_credential, make_credential
from pipeline_contracts.errors import (
    Conflict,
    FieldError,
    NotFound,
    collect_errors,
    invalid_fields,
)
from pipeline_contracts.times import format_time

MAX_PENDING = 1000
"""Pending invitations of one account."""


@dataclass(frozen=True, slots=True)
class InvitationRequest:
    """The access that an invited person gets."""

    email: str
    role: AccountRole
    project_roles: Sequence[tuple[str, RoleName]]
    """The role in each project, by the project's number or public ID."""
    expires_at: datetime


async def invite(
    session: AsyncSession, caller: Caller, request: InvitationRequest, actor: Actor, now: datetime
) -> tuple[Invitation, str]:
    """Create an invitation to the caller's account, which is locked. Return it with its secret, which is not stored.

    The caller is an owner or admin. Raises `NotAllowed` for an owner unless the caller is one, `MissingScope`
    unless the caller's token has all scopes, `InvalidInput`, and `Conflict` for a person who is a member or is invited
    already.
    """
    if request.role == "owner":
        require_account_right(caller, AccountRight.OWN)
    require_all_scopes(caller, "the invited person can sign in, and a session has all scopes")
    errors: list[FieldError] = []
    email = ""
    with collect_errors(errors):
        email = check_email(request.email, "email")
    roles = await _find_projects(session, caller.account, request.project_roles, errors)
    if errors:
        raise invalid_fields(errors)
    await _check_can_be_invited(session, caller.account, email, now)
    secret = make_credential(CredentialKind.INVITATION)
    invitation = Invitation(
        account_id=caller.account.id,
        email=email,
        role=request.role,
        project_roles=json.dumps({str(project.id): role for project, role in roles}),
        scopes=" ".join(scope for scope in SCOPES if scope in caller.scopes),
        digest=digest_credential(secret),
        invited_by_id=caller.person.id,
        created_at=now,
        expires_at=request.expires_at,
    )
    session.add(invitation)
    await session.flush()
    details = {
        "email": email,
        "role": request.role,
        "project_roles": {project.public_id: role for project, role in roles},
        "expires_at": format_time(invitation.expires_at),
    }
    _record(session, invitation, "invitation.create", actor, now, details)
    return invitation, secret


async def _find_projects(
    session: AsyncSession,
    account: Account,
    project_roles: Sequence[tuple[str, RoleName]],
    errors: list[FieldError],
) -> list[tuple[Project, RoleName]]:
    """Return the projects with the roles in them. Adds an error for each project that is unknown or repeated."""
    found: dict[int, tuple[Project, RoleName]] = {}
    for index, (number_or_id, role) in enumerate(project_roles):
        query = select(Project).where(
            Project.account_id == account.id, matches_id(Project.id, Project.public_id, number_or_id)
        )
        project = (await session.execute(query)).scalar_one_or_none()
        if project is None:
            errors.append(FieldError(f"project_roles[{index}].project", "must be a project of the account"))
        elif project.id in found:
            errors.append(FieldError(f"project_roles[{index}].project", "must not be given twice"))
        else:
            found[project.id] = (project, role)
    return list(found.values())


async def _check_can_be_invited(session: AsyncSession, account: Account, email: str, now: datetime) -> None:
    """Raise `Conflict` if the person is in the account or invited already, or if too many are invited."""
    member = (
        select(Membership.id)
        .join(Person, Person.id == Membership.person_id)
        .where(Membership.account_id == account.id, Person.email == email)
    )
    if (await session.execute(member)).first() is not None:
        raise Conflict(f"{email} is in the account already.")
    query = select(Invitation.id).where(Invitation.account_id == account.id, *_is_in_state("pending", now))
    # Two invitations of one person would be two chances to act in the person's name.
    if number := (await session.execute(query.where(Invitation.email == email))).scalars().first():
        raise Conflict(f"{email} is invited already: revoke invitation {number} to make another one.")
    count = select(func.count()).select_from(query.subquery())
    if (await session.execute(count)).scalar_one() >= MAX_PENDING:
        raise Conflict(
            f"{MAX_PENDING:,} invitations of the account are pending, which is the limit: revoke one first."
        )


async def find_invitation(session: AsyncSession, caller: Caller, invitation_id: str) -> InvitationWithPerson:
    """Return the invitation of the caller's account with this number. Raises `NotFound`."""
    query = (
        select(Invitation, Person)
        .join(Person, Person.id == Invitation.invited_by_id)
        .where(
            Invitation.account_id == caller.account.id,
            Invitation.id == (parse_number(invitation_id) or 0),
        )
    )
    row = (await session.execute(query)).one_or_none()
    if row is None:
        raise NotFound("The account has no such invitation.")
    return InvitationWithPerson(*row)


async def list_invitations(
    session: AsyncSession, account: Account, state: InvitationState | None, page: Page, now: datetime
) -> tuple[Sequence[InvitationWithPerson], bool]:
    """Return a page of the invitations of the account, the newest first, and whether more follow."""
    query = (
        select(Invitation, Person)
        .join(Person, Person.id == Invitation.invited_by_id)
        .where(Invitation.account_id == account.id)
        .order_by(Invitation.id.desc())
        .limit(page.limit + 1)
    )
    if state is not None:
        query = query.where(*_is_in_state(state, now))
    if page.before is not None:
        query = query.where(Invitation.id < page.before)
    rows = [InvitationWithPerson(*row) for row in await session.execute(query)]
    return rows[: page.limit], len(rows) > page.limit


def _is_in_state(state: InvitationState, now: datetime) -> Sequence[ColumnElement[bool]]:
    """Return the conditions that `get_invitation_state` returns `state`."""
    if state == "accepted":
        return [Invitation.accepted_at.is_not(None)]
    if state == "revoked":
        return [Invitation.accepted_at.is_(None), Invitation.revoked_at.is_not(None)]
    is_live = Invitation.expires_at > now if state == "pending" else Invitation.expires_at <= now
    return [Invitation.accepted_at.is_(None), Invitation.revoked_at.is_(None), is_live]


async def revoke_invitation(
    session: AsyncSession, invitation: Invitation, actor: Actor, now: datetime
) -> None:
    """Revoke an invitation of a locked account; a revoked invitation stays unchanged. Raises `Conflict` for an
    accepted one."""
    revoked = await session.execute(
        update(Invitation)
        .where(
            Invitation.id == invitation.id,
            Invitation.accepted_at.is_(None),
            Invitation.revoked_at.is_(None),
        )
        .values(revoked_at=now)
        .returning(Invitation.id)
        .execution_options(synchronize_session=False)
    )
    is_revoked = revoked.scalar_one_or_none() is not None
    await session.refresh(invitation)
    if invitation.accepted_at is not None:
        raise Conflict(f"{invitation.email} has accepted the invitation: remove the person instead.")
    if is_revoked:
        _record(session, invitation, "invitation.revoke", actor, now, {"email": invitation.email})


def _record(
    session: AsyncSession,
    invitation: Invitation,
    action: str,
    actor: Actor,
    now: datetime,
    details: Mapping[str, object],
) -> None:
    subject = f"invitation {invitation.id}"
    record_audit_entry(session, actor, invitation.account_id, action, subject, now, details)
