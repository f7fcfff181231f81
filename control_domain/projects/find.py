"""Finds projects and environments for a caller: in the account of the caller, by ID, with the required right."""

from typing import NamedTuple

from sqlalchemy import ColumnElement, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import Right, is_allowed
from control_domain.database.public_ids import matches_id
from control_domain.tables.projects import Environment, Project, ProjectRole
from pipeline_contracts.errors import DeployNotAllowed, NotFound

_CAN = {
    Right.READ: "use Deploy",
    Right.DEPLOY: "deploy",
    Right.DECIDE: "decide",
    Right.MANAGE: "change settings",
}


def is_callers_role(caller: Caller) -> ColumnElement[bool]:
    """Return the condition that a row of `ProjectRole` is the caller's role in the project of the query."""
    return (ProjectRole.project_id == Project.id) & (ProjectRole.person_id == caller.person.id)


def require_right(caller: Caller, project_role: str | None, right: Right) -> None:
    """Raise `DeployNotAllowed` unless the caller has the right."""
    if not is_allowed(caller.role, project_role, right):
        raise DeployNotAllowed(
            f"{caller.person.name} may not {_CAN[right]} in this project: ask somebody who manages the account for a "
            "role in it."
        )


async def find_project(session: AsyncSession, caller: Caller, number_or_id: str, right: Right) -> Project:
    """Return the project with this number or public ID.

    Raises `NotFound`, also for a project of another account, and `DeployNotAllowed`.
    """
    row = (
        await session.execute(
            select(Project, ProjectRole.role)
            .outerjoin(ProjectRole, is_callers_role(caller))
            .where(
                Project.account_id == caller.account.id,
                matches_id(Project.id, Project.public_id, number_or_id),
            )
        )
    ).one_or_none()
    if row is None:
        raise NotFound("The account has no such project.")
    require_right(caller, row[1], right)
    return row[0]


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
    row = (
        await session.execute(
            select(Environment, Project, ProjectRole.role)
            .join(Project, Project.id == Environment.project_id)
            .outerjoin(ProjectRole, is_callers_role(caller))
            .where(
                Project.account_id == caller.account.id,
                matches_id(Environment.id, Environment.public_id, number_or_id),
            )
        )
    ).one_or_none()
    if row is None:
        raise NotFound("The account has no such environment.")
    require_right(caller, row[2], right)
    return DeployTarget(row[0], row[1])
