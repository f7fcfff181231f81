"""The members of accounts and their roles. An account always has an owner.

Every change locks the row of the account first (`lock_account_row`). If two owners are removed at the same time, the
second removal is therefore refused, because it concerns the last owner.
"""

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import ColumnElement, delete, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import lock_account_row
from control_domain.accounts.roles import AccountRight, has_account_right
from control_domain.database.public_ids import matches_id
from control_domain.tables.accounts import Account, ApiToken, Membership, Person
from control_domain.tables.invitations import Invitation
from control_domain.tables.projects import Project, ProjectRole
from control_domain.tables.sign_in import SignInSession
from pipeline_contracts.errors import LastOwner, NotFound


class Member(NamedTuple):
    """A person in an account."""

    person: Person
    account: Account
    role: str
    """The role in the account: owner, admin or member."""


class RemovedAccess(NamedTuple):
    """The access that a former member has lost."""

    project_roles: int
    tokens: int
    """Number of API tokens that were valid until the removal."""


async def find_member(
    session: AsyncSession, account: Account, number_or_id: str, *, lock: bool = False
) -> Member:
    """Return the member of the account with this number or public ID. Raises `NotFound`.

    With `lock`, the account and its memberships do not change before the end of the transaction.
    """
    if lock:
        await lock_account_row(session, account)
    query = (
        select(Person, Membership.role)
        .join(Membership, Membership.person_id == Person.id)
        .where(Membership.account_id == account.id, matches_id(Person.id, Person.public_id, number_or_id))
    )
    row = (await session.execute(query)).one_or_none()
    if row is None:
        raise NotFound("The account has no such person.")
    return Member(row[0], account, row[1])


async def change_role(session: AsyncSession, member: Member, role: str, now: datetime) -> None:
    """Change the role of a locked member. Revokes the member's pending invitations that the new role does not allow.

    Raises `LastOwner`.
    """
    if role != "owner":
        await _check_other_owner(session, member)
    await session.execute(update(Membership).where(*_is_membership_of(member)).values(role=role))
    is_theirs = Invitation.invited_by_id == member.person.id
    if not has_account_right(role, AccountRight.MANAGE):
        await _revoke_invitations(session, member.account, now, is_theirs)
    elif not has_account_right(role, AccountRight.OWN):
        await _revoke_invitations(session, member.account, now, is_theirs, Invitation.role == "owner")


async def remove_member(session: AsyncSession, member: Member, now: datetime) -> RemovedAccess:
    """Remove a locked member and the member's roles in projects, API tokens and sessions of the account.

    Revokes the invitations that the member has made, and those to the member's address. Raises `LastOwner`.
    """
    await _check_other_owner(session, member)
    person, account, _ = member
    projects = select(Project.id).where(Project.account_id == account.id)
    roles = await session.execute(
        delete(ProjectRole)
        .where(ProjectRole.person_id == person.id, ProjectRole.project_id.in_(projects))
        .returning(ProjectRole.project_id)
    )
    tokens = await session.execute(
        update(ApiToken)
        .where(
            ApiToken.account_id == account.id, ApiToken.person_id == person.id, ApiToken.revoked_at.is_(None)
        )
        .values(revoked_at=now)
        .returning(ApiToken.id, ApiToken.expires_at)
    )
    await session.execute(
        update(SignInSession)
        .where(
            SignInSession.account_id == account.id,
            SignInSession.person_id == person.id,
            SignInSession.revoked_at.is_(None),
        )
        .values(revoked_at=now)
        .execution_options(synchronize_session=False)
    )
    is_of_member = or_(Invitation.invited_by_id == person.id, Invitation.email == person.email)
    await _revoke_invitations(session, account, now, is_of_member)
    await session.execute(delete(Membership).where(*_is_membership_of(member)))
    ended = [row for row in tokens if row.expires_at is None or row.expires_at > now]
    return RemovedAccess(len(roles.all()), len(ended))


def _is_membership_of(member: Member) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return Membership.account_id == member.account.id, Membership.person_id == member.person.id


async def _revoke_invitations(
    session: AsyncSession, account: Account, now: datetime, *conditions: ColumnElement[bool]
) -> None:
    """Revoke the pending invitations to the account that satisfy the conditions."""
    await session.execute(
        update(Invitation)
        .where(
            Invitation.account_id == account.id,
            Invitation.accepted_at.is_(None),
            Invitation.revoked_at.is_(None),
            *conditions,
        )
        .values(revoked_at=now)
        .execution_options(synchronize_session=False)
    )


async def _check_other_owner(session: AsyncSession, member: Member) -> None:
    """Raise `LastOwner` if the member is the only owner."""
    others = select(func.count()).where(
        Membership.account_id == member.account.id,
        Membership.person_id != member.person.id,
        Membership.role == "owner",
    )
    if member.role == "owner" and not (await session.execute(others)).scalar_one():
        raise LastOwner(f"{member.person.email} is the last owner of the account {member.account.slug}.")
