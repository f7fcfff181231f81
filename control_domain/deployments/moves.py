"""The only place where a deployment's status changes, and where Pharos writes into its log."""

from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.move_status import move_status
from control_domain.tables.deployments import Deployment, DeploymentLine
from pipeline_contracts.deploy_states import FINAL, DeploymentStatus
from pipeline_contracts.times import format_time


async def move_deployment(
    session: AsyncSession, deployment: Deployment, to: DeploymentStatus, now: datetime, **values: Any
) -> None:
    """Give the deployment its next status, and `values`. A final one sets `finished_at`.

    Raises `ForbiddenMove` for a move that the table does not have, and where somebody else has moved it since it was
    read; `IntegrityError` where it becomes active and the environment has an active one.
    """
    if to in FINAL:
        values["finished_at"] = now
    await move_status(session, deployment, to, **values)


def add_line(session: AsyncSession, deployment_id: int, text: str, now: datetime) -> None:
    """A line of Pharos' own in the deployment's log."""
    session.add(DeploymentLine(deployment_id=deployment_id, at=format_time(now), stream="system", text=text))
