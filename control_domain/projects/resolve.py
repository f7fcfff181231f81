"""Finds what an operator names, in all accounts: projects, environments and people, by number, ID, slug or address."""

from collections.abc import Mapping
from typing import Any, TypeVar

from sqlalchemy import Select, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain import next_steps
from control_domain.accounts.members import resolve_person
from control_domain.accounts.roles import PROJECT_ROLES, Right, is_allowed
from control_domain.audit import Actor, make_operator
from control_domain.database.public_ids import matches_id
from control_domain.projects.find import DeployTarget
from control_domain.refusals import Refused
from control_domain.tables.accounts import Account, Membership, Person
from control_domain.tables.projects import Environment, Project, ProjectRole
from pipeline_contracts.errors import SecondPersonRequired

T = TypeVar("T", Account, Project, Environment)


async def resolve_account(session: AsyncSession, name_or_id: str | None) -> Account:
    """Return the account with this number, ID or slug, or the only account if it is None.

    Raises `Refused` if none or several match.
    """
    # Account scope: an operator may name an object of any account.
    query = select(Account)
    if name_or_id is not None:
        query = query.where(
            or_(matches_id(Account.id, Account.public_id, name_or_id), Account.slug == name_or_id)
        )
    return await _exactly_one(session, query, "account", name_or_id)


async def resolve_project(session: AsyncSession, name_or_id: str | None) -> Project:
    """Return the project with this number, ID or slug, or the only project if it is None. Raises `Refused`."""
    # Account scope: an operator may name an object of any account.
    query = select(Project)
    if name_or_id is not None:
        query = query.where(
            or_(matches_id(Project.id, Project.public_id, name_or_id), Project.slug == name_or_id)
        )
    return await _exactly_one(session, query, "project", name_or_id)


async def resolve_environment(
    session: AsyncSession, name_or_id: str | None, among: Project | None = None
) -> Environment:
    """Return the environment with this number, ID or slug, or the only environment if it is None. Raises `Refused`.

    The slug may include that of the project: `shop/production`. `among`: search in this project only.
    """
    query = select(Environment)
    if among is not None:
        query = query.where(Environment.project_id == among.id)
    if name_or_id is not None:
        project, slash, slug = name_or_id.rpartition("/")
        if slash:
            query = query.join(Project, Project.id == Environment.project_id)
            query = query.where(Project.slug == project, Environment.slug == slug)
        else:
            query = query.where(
                or_(
                    matches_id(Environment.id, Environment.public_id, name_or_id),
                    Environment.slug == name_or_id,
                )
            )
    where = "" if among is None else f" in the project {among.slug}"
    return await _exactly_one(session, query, "environment", name_or_id, where)


async def resolve_target(session: AsyncSession, name_or_id: str | None) -> DeployTarget:
    """Return the same environment as `resolve_environment`, with its project. Raises `Refused`."""
    environment = await resolve_environment(session, name_or_id)
    return DeployTarget(environment, await session.get_one(Project, environment.project_id))


async def _exactly_one(
    session: AsyncSession, query: Select[T], kind: str, name_or_id: str | None, where: str = ""
) -> T:
    found = (await session.execute(query.limit(10))).scalars().all()
    if len(found) == 1:
        return found[0]
    if not found:
        raise Refused(f"There is no {kind} {name_or_id or 'at all'}{where}; {next_steps.list_all(kind)}")
    ids = ", ".join(row.public_id for row in found)
    fault = (
        f"Several {kind}s are called {name_or_id!r}"
        if name_or_id is not None
        else f"There are several {kind}s"
    )
    raise Refused(f"{fault}: name one by its ID ({ids}).")


_MAY_NOT = {
    Right.READ: "may not use Deploy in",
    Right.DEPLOY: "may not deploy in",
    Right.DECIDE: "may not decide what waits in",
}
_ROLES = {
    right: next(role for role, highest in PROJECT_ROLES.items() if highest >= right) for right in _MAY_NOT
}
"""The lowest role that gives each right."""


async def resolve_member(session: AsyncSession, project: Project, name_or_id: str, right: Right) -> Person:
    """Return the person with this e-mail address, number or ID. Raises `Refused` without the right in the project."""
    person = await resolve_person(session, name_or_id)
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
            f"{person.email} {_MAY_NOT[right]} the project {project.slug}: "
            f"{next_steps.grant_project_role(project.slug, person.email, _ROLES[right])}"
        )
    return person


async def resolve_requester(session: AsyncSession, project: Project, params: Mapping[str, Any]) -> Actor:
    """Return the operator who runs a command, on behalf of the person in `params["by"]` if it is given.

    Raises `Refused` if the person may not deploy in the project.
    """
    by = params.get("by")
    if by is None:
        return make_operator(params)
    return make_operator(params, (await resolve_member(session, project, str(by), Right.DEPLOY)).id)


def check_second_person(requester_id: int | None, person: Person) -> None:
    """Raise `SecondPersonRequired` if the person who decides is the one who made the request."""
    if requester_id == person.id:
        raise SecondPersonRequired(f"{person.name} has asked for it: somebody else has to decide.")
