"""Finds what an operator names, in all accounts: by a number, a public ID, or a slug."""

from typing import TypeVar

from sqlalchemy import Select, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.public_ids import named
from control_domain.projects.find import Place
from control_domain.refusals import Refused
from control_domain.tables.accounts import Account
from control_domain.tables.projects import Environment, Project

T = TypeVar("T", Account, Project, Environment)


async def choose_account(session: AsyncSession, called: str | None) -> Account:
    """The account of this number, ID or slug; it may be left out where there is only one. Raises `Refused`."""
    # Account scope: an operator may name an object of any account.
    query = select(Account)
    if called is not None:
        query = query.where(or_(named(Account.id, Account.public_id, called), Account.slug == called))
    return await _the_one(session, query, "account", called)


async def choose_project(session: AsyncSession, called: str | None) -> Project:
    """The same for a project."""
    # Account scope: an operator may name an object of any account.
    query = select(Project)
    if called is not None:
        query = query.where(or_(named(Project.id, Project.public_id, called), Project.slug == called))
    return await _the_one(session, query, "project", called)


async def choose_environment(
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
                or_(named(Environment.id, Environment.public_id, called), Environment.slug == called)
            )
    where = "" if among is None else f" in the project {among.slug}"
    return await _the_one(session, query, "environment", called, where)


async def choose_place(session: AsyncSession, called: str | None) -> Place:
    """The same, with the project that the environment is of."""
    environment = await choose_environment(session, called)
    return Place(environment, await session.get_one(Project, environment.project_id))


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
