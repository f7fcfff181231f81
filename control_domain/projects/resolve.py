"""Finds what an operator names, in all accounts: by a number, a public ID, or a slug."""

from collections.abc import Mapping
from typing import Any, TypeVar

from sqlalchemy import Select, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.members import resolve_person
from control_domain.accounts.roles import PROJECT_ROLES, Right, is_allowed
from control_domain.audit import Actor, make_operator
from control_domain.database.public_ids import matches_id
from control_domain.projects.find import DeployTarget
from control_domain.refusals import Refused
from control_domain.tables.accounts import Account, Membership, Person
from control_domain.tables.projects import Environment, Project, ProjectRole

T = TypeVar("T", Account, Project, Environment)


async def resolve_account(session: AsyncSession, called: str | None) -> Account:
    """The account of this number, ID or slug; it may be left out where there is only one. Raises `Refused`."""
    # Account scope: an operator may name an object of any account.
    query = select(Account)
    if called is not None:
        query = query.where(or_(matches_id(Account.id, Account.public_id, called), Account.slug == called))
    return await _the_one(session, query, "account", called)


async def resolve_project(session: AsyncSession, called: str | None) -> Project:
    """The same for a project."""
    # Account scope: an operator may name an object of any account.
    query = select(Project)
    if called is not None:
        query = query.where(or_(matches_id(Project.id, Project.public_id, called), Project.slug == called))
    return await _the_one(session, query, "project", called)


async def resolve_environment(
    session: AsyncSession, called: str | None, among: Project | None = None
) -> Environment:
    """The same for an environment; its slug may have its project's before it: `shop/production`. `among`: of this
    project only."""
    query = select(Environment)
    if among is not None:
        query = query.where(Environment.project_id == among.id)
    if called is not None:
        project, slash, slug = called.rpartition("/")
        if slash:
            query = query.join(Project, Project.id == Environment.project_id)
            query = query.where(Project.slug == project, Environment.slug == slug)
        else:
            query = query.where(
                or_(matches_id(Environment.id, Environment.public_id, called), Environment.slug == called)
            )
    where = "" if among is None else f" in the project {among.slug}"
    return await _the_one(session, query, "environment", called, where)


async def resolve_target(session: AsyncSession, called: str | None) -> DeployTarget:
    """The same, with the project that the environment is of."""
    environment = await resolve_environment(session, called)
    return DeployTarget(environment, await session.get_one(Project, environment.project_id))


async def _the_one(
    session: AsyncSession, query: Select[T], kind: str, called: str | None, where: str = ""
) -> T:
    found = (await session.execute(query.limit(10))).scalars().all()
    if len(found) == 1:
        return found[0]
    if not found:
        raise Refused(f"There is no {kind} {called or 'at all'}{where}; `pharos {kind} list` shows all.")
    ids = ", ".join(one.public_id for one in found)
    told = f"Several {kind}s are called {called!r}" if called is not None else f"There are several {kind}s"
    raise Refused(f"{told}: name one by its ID ({ids}).")


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
