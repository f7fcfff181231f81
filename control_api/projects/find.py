"""Finds what a path names: in the caller's account, by either of its IDs, and with the right to it."""

import re
from typing import NamedTuple

from sqlalchemy import ColumnElement, false, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from control_api.accounts.operations import Caller
from control_api.projects.roles import Right, is_allowed
from control_api.projects.tables import Environment, Project, ProjectRole
from pipeline_contracts.errors import DeployNotAllowed, NotFound

_NUMBER = re.compile("[0-9]{1,10}")
_PUBLIC_ID = re.compile("[a-z]{3}_[0-9a-z]{1,36}")
# What the columns hold.
_MOST = 2**31 - 1
_CAN = {Right.READ: "use Deploy", Right.DEPLOY: "deploy", Right.DECIDE: "decide"}


def read_number(given: str) -> int | None:
    """The integer ID in a path; None for what no row can have."""
    if _NUMBER.fullmatch(given) is None or not 0 < int(given) <= _MOST:
        return None
    return int(given)


def named(
    number: InstrumentedAttribute[int], public_id: InstrumentedAttribute[str], given: str
) -> ColumnElement[bool]:
    """That a row is the one of this numeric or public ID."""
    as_number = read_number(given)
    if as_number is not None:
        return number == as_number
    # Postgres refuses the whole query for a text that it cannot keep, such as one with a NUL.
    return public_id == given if _PUBLIC_ID.fullmatch(given) else false()


def role_of(caller: Caller) -> ColumnElement[bool]:
    """That a role is the caller's in the project of the query."""
    return (ProjectRole.project_id == Project.id) & (ProjectRole.person_id == caller.person.id)


def require(caller: Caller, project_role: str | None, right: Right) -> None:
    """Raises `DeployNotAllowed` unless the person has the right."""
    if not is_allowed(caller.role, project_role, right):
        raise DeployNotAllowed(
            f"{caller.person.name} may not {_CAN[right]} in this project: ask somebody who manages the account for a "
            "role in it."
        )


async def find_project(session: AsyncSession, caller: Caller, given: str, right: Right) -> Project:
    """The project. Raises `NotFound` for one of another account too, and `DeployNotAllowed`."""
    row = (
        await session.execute(
            select(Project, ProjectRole.role)
            .outerjoin(ProjectRole, role_of(caller))
            .where(Project.account_id == caller.account.id, named(Project.id, Project.public_id, given))
        )
    ).one_or_none()
    if row is None:
        raise NotFound("The account has no such project.")
    require(caller, row[1], right)
    return row[0]


class Place(NamedTuple):
    """An environment and the project that it is of."""

    environment: Environment
    project: Project


async def find_environment(session: AsyncSession, caller: Caller, given: str, right: Right) -> Place:
    """The environment. Raises `NotFound` for one of another account too, and `DeployNotAllowed`."""
    row = (
        await session.execute(
            select(Environment, Project, ProjectRole.role)
            .join(Project, Project.id == Environment.project_id)
            .outerjoin(ProjectRole, role_of(caller))
            .where(
                Project.account_id == caller.account.id,
                named(Environment.id, Environment.public_id, given),
            )
        )
    ).one_or_none()
    if row is None:
        raise NotFound("The account has no such environment.")
    require(caller, row[2], right)
    return Place(row[0], row[1])
