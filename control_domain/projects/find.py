"""Finds projects and environments for a caller: in the account of the caller, by ID, with the required right."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, cast

from sqlalchemy import ColumnElement, Row, Select, bindparam, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import Right, is_allowed, sees_all_projects
from control_domain.database.public_ids import parse_id
from control_domain.tables.projects import Environment, Project, ProjectRole
from pipeline_contracts.errors import DeployNotAllowed, NotFound

_CAN = {
    Right.READ: "look at anything",
    Right.DEPLOY: "deploy",
    Right.DECIDE: "decide",
    Right.MANAGE: "change settings",
}


IS_ROLE_OF_PERSON = (ProjectRole.project_id == Project.id) & (ProjectRole.person_id == bindparam("person"))
"""The condition that a row of `ProjectRole` is the role of `person` in the project of the query."""


def is_callers_role(caller: Caller) -> ColumnElement[bool]:
    """Return the condition that a row of `ProjectRole` is the caller's role in the project of the query."""
    return (ProjectRole.project_id == Project.id) & (ProjectRole.person_id == caller.person.id)


def in_visible_projects(caller: Caller) -> Sequence[ColumnElement[bool]]:
    """Return the conditions that the `Project` of a query may be read by the caller."""
    conditions: list[ColumnElement[bool]] = [Project.account_id == caller.account.id]
    if not sees_all_projects(caller.role):
        # Account scope: the queries that this is a part of are bound to the account.
        own = select(ProjectRole.project_id).where(ProjectRole.person_id == caller.person.id)
        conditions.append(Project.id.in_(own))
    return conditions


def require_right(caller: Caller, project_role: str | None, right: Right) -> None:
    """Raise `DeployNotAllowed` unless the caller has the right."""
    if not is_allowed(caller.role, project_role, right):
        raise DeployNotAllowed(
            f"{caller.person.name} may not {_CAN[right]} in this project: ask somebody who manages the account for a "
            "role in it."
        )


# Both kinds of query are built once: nearly every request runs one, and building it takes as long as running it.
@cache
def _select_project(*, by_number: bool) -> Select[*tuple[Any, ...]]:
    wanted = Project.id if by_number else Project.public_id
    return (
        select(Project, ProjectRole.role)
        .outerjoin(ProjectRole, IS_ROLE_OF_PERSON)
        .where(Project.account_id == bindparam("account"), wanted == bindparam("wanted"))
    )


@cache
def _select_environment(*, by_number: bool) -> Select[*tuple[Any, ...]]:
    wanted = Environment.id if by_number else Environment.public_id
    return (
        select(Environment, Project, ProjectRole.role)
        .join(Project, Project.id == Environment.project_id)
        .outerjoin(ProjectRole, IS_ROLE_OF_PERSON)
        .where(Project.account_id == bindparam("account"), wanted == bindparam("wanted"))
    )


async def find_project(session: AsyncSession, caller: Caller, number_or_id: str, right: Right) -> Project:
    """Return the project with this number or public ID.

    Raises `NotFound`, also for a project of another account, and `DeployNotAllowed`.
    """
    row = await _find(session, caller, number_or_id, _select_project)
    if row is None:
        raise NotFound("The account has no such project.")
    project, role = row
    require_right(caller, role, right)
    return cast(Project, project)


class DeployTarget(NamedTuple):
    """An environment and its project."""

    environment: Environment
    project: Project


async def find_environment(
    session: AsyncSession, caller: Caller, number_or_id: str, right: Right
) -> DeployTarget:
    """Return the environment with this number or public ID.

    Raises `NotFound`, also for an environment of another account, and `DeployNotAllowed`.
    """
    row = await _find(session, caller, number_or_id, _select_environment)
    if row is None:
        raise NotFound("The account has no such environment.")
    require_right(caller, row[2], right)
    return DeployTarget(row[0], row[1])


async def _find(
    session: AsyncSession,
    caller: Caller,
    number_or_id: str,
    select_by: Callable[..., Select[*tuple[Any, ...]]],
) -> Row[*tuple[Any, ...]] | None:
    wanted = parse_id(number_or_id)
    if wanted is None:
        return None
    values = {"account": caller.account.id, "person": caller.person.id, "wanted": wanted}
    query = select_by(by_number=isinstance(wanted, int))
    return (await session.execute(query, values)).one_or_none()
