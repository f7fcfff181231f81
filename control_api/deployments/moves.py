"""The only place where a deployment's status changes, and where Pharos writes into its log."""

from datetime import datetime
from typing import Any

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncSession

from control_api.deployments.tables import Deployment, DeploymentLine
from pipeline_contracts.deploy_states import FINAL, DeploymentStatus, ForbiddenMove, check_move
from pipeline_contracts.times import format_time


async def move_deployment(
    session: AsyncSession, deployment: Deployment, to: DeploymentStatus, now: datetime, **values: Any
) -> None:
    """Give the deployment its next status, and `values`. A final one sets `finished_at`.

    Raises `ForbiddenMove` for a move that the table does not have, and where somebody else has moved it since it was
    read; `IntegrityError` where it becomes active and the environment has an active one.
    """
    was = DeploymentStatus(deployment.status)
    check_move(was, to)
    if to in FINAL:
        values["finished_at"] = now
    # What was read is part of the condition: of two who move it at once, one wins.
    moved = await session.execute(
        update(Deployment)
        .where(Deployment.id == deployment.id, Deployment.status == was.value)
        .values(status=to.value, **values)
        .returning(Deployment.id)
        .execution_options(synchronize_session=False)
    )
    is_moved = moved.scalar_one_or_none() is not None
    await session.refresh(deployment)
    if not is_moved:
        raise ForbiddenMove(DeploymentStatus(deployment.status), to)


def add_line(session: AsyncSession, deployment_id: int, text: str, now: datetime) -> None:
    """A line of Pharos' own in the deployment's log."""
    session.add(DeploymentLine(deployment_id=deployment_id, at=format_time(now), stream="system", text=text))
