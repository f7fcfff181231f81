"""The people whom an operator names as those who ask or decide."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.members import resolve_person
from control_domain.accounts.roles import PROJECT_ROLES, Right, is_allowed
from control_domain.audit import Actor, make_operator
from control_domain.refusals import Refused
from control_domain.tables.accounts import Membership, Person
from control_domain.tables.projects import Project, ProjectRole

_MAY_NOT = {
    Right.READ: "may not use Deploy in",
    Right.DEPLOY: "may not deploy in",
    Right.DECIDE: "may not decide what waits in",
}
_ROLES = {right: role for role, right in PROJECT_ROLES.items()}


async def resolve_member(session: AsyncSession, project: Project, called: str, right: Right) -> Person:
    """The person of this e-mail address, number or ID, who has the right in the project. Raises `Refused`."""
    person = await resolve_person(session, called)
    row = (
        await session.execute(
            select(Membership.role, ProjectRole.role)
            .outerjoin(
                ProjectRole,
                (ProjectRole.project_id == project.id) & (ProjectRole.person_id == Membership.person_id),
            )
            .where(Membership.account_id == project.account_id, Membership.person_id == person.id)
        )
    ).one_or_none()
    if row is None or not is_allowed(row[0], row[1], right):
        raise Refused(
            f"{person.email} {_MAY_NOT[right]} the project {project.slug}: name somebody else, or give them a role "
            f"with `pharos project grant {project.slug} {person.email} --role {_ROLES[right]}`."
        )
    return person


async def resolve_requester(session: AsyncSession, project: Project, wanted: Mapping[str, Any]) -> Actor:
    """The operator who runs a command, for the person whom `by` names, where it is given. Raises `Refused` for one who
    may not deploy in the project."""
    by = wanted.get("by")
    if by is None:
        return make_operator(wanted)
    return make_operator(wanted, (await resolve_member(session, project, str(by), Right.DEPLOY)).id)


def check_second_person(asked_by_id: int | None, person: Person) -> None:
    """Raises `Refused` for the one who asked: a second person has to decide."""
    if asked_by_id == person.id:
        raise Refused(f"{person.name} has asked for it: somebody else has to decide.")
