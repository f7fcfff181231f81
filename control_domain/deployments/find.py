"""Finds a deployment for a caller, with its environment and project."""

from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import Right
from control_domain.database.public_ids import parse_number
from control_domain.projects.find import is_callers_role, require_right
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment, Project, ProjectRole
from pipeline_contracts.errors import Conflict, NotFound


class FoundDeployment(NamedTuple):
    """A deployment, its environment and its project."""

    deployment: Deployment
    environment: Environment | None
    """None if it was removed."""
    project: Project


async def find_deployment_of_caller(
    session: AsyncSession, caller: Caller, number: str, right: Right
) -> FoundDeployment:
    """Return the deployment with this ID.

    Raises `NotFound`, also for a deployment of another account, and `DeployNotAllowed`.
    """
    query = (
        select(Deployment, Environment, Project, ProjectRole.role)
        .join(Project, Project.id == Deployment.project_id)
        .outerjoin(Environment, Environment.id == Deployment.environment_id)
        .outerjoin(ProjectRole, is_callers_role(caller))
        .where(Deployment.account_id == caller.account.id, Deployment.id == parse_number(number))
        .execution_options(populate_existing=True)
    )
    row = (await session.execute(query)).one_or_none()
    if row is None:
        raise NotFound("The account has no such deployment.")
    require_right(caller, row[3], right)
    return FoundDeployment(*row[:3])


def get_environment(found: FoundDeployment) -> Environment:
    """Return the environment of a deployment. Raises `Conflict` if it was removed."""
    if found.environment is None:
        raise Conflict(f"The environment of deployment {found.deployment.id} was removed.")
    return found.environment
