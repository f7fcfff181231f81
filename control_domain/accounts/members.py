"""Who is in an account, and with which role: never without an owner.

All that changes it holds the account (`lock_account`): of two who leave at once, one finds that it is the last owner.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import ColumnElement, delete, func, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import add_membership, create_person, lock_account_row
from control_domain.database.public_ids import matches_id
from control_domain.refusals import Refused
from control_domain.tables.accounts import Account, ApiToken, Membership, Person
from control_domain.tables.projects import Project, ProjectRole


class Member(NamedTuple):
    """A person in an account."""

    person: Person
    account: Account
    role: str
    """In the account: owner, admin or member."""


class RemovedAccess(NamedTuple):
    """What somebody had who has left an account."""

    project_roles: int
    tokens: int
    """Those that worked until then."""


async def resolve_person(session: AsyncSession, called: str) -> Person:
    """The person of this e-mail address, number or ID. Raises `Refused`."""
    # Addresses are kept in lower case.
    query = select(Person).where(
        or_(matches_id(Person.id, Person.public_id, called), Person.email == called.lower())
    )
    person = (await session.execute(query)).scalars().first()
    if person is None:
        raise Refused(f"There is no person {called!r}; `pharos person list` shows all.")
    return person


async def list_members(session: AsyncSession, account: Account | None = None) -> Sequence[Member]:
    """Who is in the account, or all people with each of their accounts; in the order in which they came."""
    query = (
        select(Person, Account, Membership.role)
        .join(Membership, Membership.person_id == Person.id)
        .join(Account, Account.id == Membership.account_id)
        .order_by(Membership.id)
    )
    if account is not None:
        query = query.where(Membership.account_id == account.id)
    return [Member(*row) for row in await session.execute(query)]


async def add_member(
    session: AsyncSession, account: Account, email: str, name: str | None, role: str, now: datetime
) -> Person:
    """Give whoever has this address, in lower case, a place in the account; who is known keeps the name. Raises
    `Refused` for a member, and for somebody new without a name."""
    await lock_account_row(session, account)
    person = (await session.execute(select(Person).where(Person.email == email))).scalar_one_or_none()
    if person is not None and await role_in(session, account, person) is not None:
        raise Refused(
            f"{email} is in the account {account.slug} already: `pharos person set-role` changes the role."
        )
    if person is None and name is None:
        raise Refused(f"Nobody has the address {email} yet: give a name as well, with --name.")
    try:
        if person is None:
            return await create_person(session, account, name or "", email, role, now)
        await add_membership(session, account, person, role)
    except IntegrityError:
        # In another account: this one is held.
        raise Refused(f"Somebody else has added {email} meanwhile: run the command again.") from None
    return person


async def role_in(session: AsyncSession, account: Account, person: Person) -> str | None:
    """The person's role in the account; None: is not in it."""
    role = select(Membership.role).where(
        Membership.account_id == account.id, Membership.person_id == person.id
    )
    return (await session.execute(role)).scalar_one_or_none()


async def lock_member(session: AsyncSession, account: Account, called: str) -> Member:
    """The person of this e-mail address, number or ID, who is in the account and stays so until the end of the
    transaction. Raises `Refused`."""
    await lock_account_row(session, account)
    person = await resolve_person(session, called)
    role = await role_in(session, account, person)
    if role is None:
        raise Refused(
            f"{person.email} is not in the account {account.slug}: add them with "
            f"`pharos person add {person.email} --account {account.slug}`."
        )
    return Member(person, account, role)


async def change_role(session: AsyncSession, member: Member, role: str) -> None:
    """Give a member, who is held, another role. Raises `Refused` for the last owner."""
    if role != "owner":
        await _check_other_owner(session, member)
    await session.execute(update(Membership).where(*_place(member)).values(role=role))


async def remove_member(session: AsyncSession, member: Member, now: datetime) -> RemovedAccess:
    """Let a member, who is held, leave: the roles in the account's projects and the tokens for it end too. Raises
    `Refused` for the last owner."""
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
    await session.execute(delete(Membership).where(*_place(member)))
    ended = [row for row in tokens if row.expires_at is None or row.expires_at > now]
    return RemovedAccess(len(roles.all()), len(ended))


def _place(member: Member) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """That a membership is this one."""
    return Membership.account_id == member.account.id, Membership.person_id == member.person.id


async def _check_other_owner(session: AsyncSession, member: Member) -> None:
    """Raises `Refused` where the member is an owner and nobody else is."""
    others = select(func.count()).where(
        Membership.account_id == member.account.id,
        Membership.person_id != member.person.id,
        Membership.role == "owner",
    )
    if member.role == "owner" and not (await session.execute(others)).scalar_one():
        raise Refused(
            f"{member.person.email} is the last owner of the account {member.account.slug}: make somebody else owner "
            "first, with `pharos person set-role`."
        )
