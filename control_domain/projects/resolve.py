"""Finds what an operator names, in all accounts: accounts and projects, by number, ID or slug."""

from typing import TypeVar

from sqlalchemy import Select, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain import next_steps
from control_domain.database.public_ids import matches_id
from control_domain.refusals import Refused
from control_domain.tables.accounts import Account, Person
from control_domain.tables.projects import Project
from pipeline_contracts.errors import SecondPersonRequired

T = TypeVar("T", Account, Project)


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


def check_second_person(requester_id: int | None, person: Person) -> None:
    """Raise `SecondPersonRequired` if the person who decides is the one who made the request."""
    if requester_id == person.id:
        raise SecondPersonRequired(f"{person.name} has asked for it: somebody else has to decide.")
