"""The roles of people in a project."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypedDict, cast

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.describe import PersonSummary, summarize_person
from control_domain.accounts.members import Member, find_member
from control_domain.audit import Actor, record_audit_entry
from control_domain.paging import Page
from control_domain.projects.operations import grant_role, lock_project_row, revoke_role
from control_domain.tables.accounts import Account, Membership, Person
from control_domain.tables.projects import Project, ProjectRole
from pipeline_contracts.errors import NotFound

RoleName = Literal["viewer", "deployer", "maintainer"]


class ProjectMemberDocument(TypedDict):
    """A person's role in a project. Owners and admins of the account may do everything in it, without a role."""

    person: PersonSummary
    account_role: Literal["owner", "admin", "member"]
    role: RoleName | None


class ProjectMember(NamedTuple):
    """A member of the account, and the role in the project; None without one."""

    person: Person
    account_role: str
    role: str | None


def describe_project_member(member: ProjectMember) -> ProjectMemberDocument:
    return {
        "person": summarize_person(member.person),
        "account_role": cast(Any, member.account_role),
        "role": cast(Any, member.role),
    }


async def list_project_members(
    session: AsyncSession, project: Project, page: Page
) -> tuple[Sequence[ProjectMember], bool]:
    """Return a page of the people who have a role in the project, the newest person first, and whether more follow."""
    query = (
        select(Person, Membership.role, ProjectRole.role)
        .join(ProjectRole, ProjectRole.person_id == Person.id)
        .join(Membership, (Membership.person_id == Person.id) & (Membership.account_id == project.account_id))
        .where(ProjectRole.project_id == project.id)
        .order_by(Person.id.desc())
        .limit(page.limit + 1)
    )
    if page.before is not None:
        query = query.where(Person.id < page.before)
    rows = [ProjectMember(*row) for row in await session.execute(query)]
    return rows[: page.limit], len(rows) > page.limit


async def set_project_role(
    session: AsyncSession,
    account: Account,
    project: Project,
    person_id: str,
    role: str,
    actor: Actor,
    now: datetime,
) -> ProjectMember:
    """Give a member of the account the role in the project, in place of the former one.

    Raises `NotFound` for a person who is not in the account.
    """
    member = await _lock_both(session, account, project, person_id)
    former = await grant_role(session, project, member.person, role)
    if former != role:
        details = {"person": member.person.public_id, "from": former, "to": role}
        subject = f"project {project.public_id}"
        record_audit_entry(session, actor, account.id, "project.grant", subject, now, details)
    return ProjectMember(member.person, member.role, role)


async def remove_project_role(
    session: AsyncSession, account: Account, project: Project, person_id: str, actor: Actor, now: datetime
) -> ProjectMember:
    """Remove a person's role in the project. Raises `NotFound` for a person without one."""
    member = await _lock_both(session, account, project, person_id)
    former = await revoke_role(session, project, member.person)
    if former is None:
        raise NotFound(f"{member.person.email} has no role in the project {project.slug}.")
    details = {"person": member.person.public_id, "from": former}
    subject = f"project {project.public_id}"
    record_audit_entry(session, actor, account.id, "project.revoke", subject, now, details)
    return ProjectMember(member.person, member.role, None)


async def _lock_both(session: AsyncSession, account: Account, project: Project, person_id: str) -> Member:
    """Return the member. Neither the member nor the project is removed before the end of the transaction."""
    member = await find_member(session, account, person_id, lock=True)
    await lock_project_row(session, project)
    return member
