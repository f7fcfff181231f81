"""Finds what an operator names, in all accounts: by a number, a public ID, or a slug."""

from typing import TypeVar

from sqlalchemy import Select, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.public_ids import matches_id
from control_domain.projects.find import DeployTarget
from control_domain.refusals import Refused
from control_domain.tables.accounts import Account
from control_domain.tables.projects import Environment, Project

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
