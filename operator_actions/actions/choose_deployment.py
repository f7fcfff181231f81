"""Finds the deployment that an operator names, and tells it with where it goes."""

from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.deployments.describe import describe_deployment
from control_domain.projects.find import DeployTarget
from control_domain.refusals import Refused
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment, Project
from pipeline_contracts.times import format_time


class Chosen(NamedTuple):
    """A deployment with where it goes; None: the environment was removed."""

    deployment: Deployment
    environment: Environment | None
    project: Project

    @property
    def target(self) -> DeployTarget | None:
        return None if self.environment is None else DeployTarget(self.environment, self.project)


async def choose_deployment(session: AsyncSession, number: int) -> Chosen:
    """The deployment of this number, of any account. Raises `Refused`."""
    query = (
        select(Deployment, Environment, Project)
        .join(Project, Project.id == Deployment.project_id)
        .outerjoin(Environment, Environment.id == Deployment.environment_id)
        .where(Deployment.id == number)
    )
    row = (await session.execute(query)).one_or_none()
    if row is None:
        raise Refused(f"There is no deployment {number}; `pharos deployments` shows the newest.")
    return Chosen(*row)


def describe_chosen(chosen: Chosen) -> dict[str, Any]:
    """As the public API has it, and where it goes in words."""
    deployment, environment, project = chosen
    return {
        **describe_deployment(deployment, None if environment is None else environment.public_id),
        "environment": None if environment is None else environment.slug,
        "project": project.slug,
        "note": deployment.note,
        "decided_at": None if deployment.decided_at is None else format_time(deployment.decided_at),
    }
