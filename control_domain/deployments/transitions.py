"""Changes the status of deployments, and writes Pharos' own lines into their logs."""

from datetime import datetime
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.statements import move_status
from control_domain.deployments.alerts import record_deployment_alerts
from control_domain.tables.deployments import Deployment, DeploymentLine
from pipeline_contracts.deploy_states import FINAL_STATUSES, DeploymentStatus
from pipeline_contracts.times import format_time


async def transition_deployment(
    session: AsyncSession, deployment: Deployment, to: DeploymentStatus, now: datetime, **values: Any
) -> None:
    """Set the deployment's next status and the columns `values`. A final status also sets `finished_at`.

    This function makes all changes of a status, and records their alert events. Raises `ForbiddenTransition` if the
    transition is not allowed, or if the status changed since it was read; `IntegrityError` if the environment already
    has an active deployment.
    """
    if to in FINAL_STATUSES:
        values["finished_at"] = now
    former = DeploymentStatus(deployment.status)
    await move_status(session, deployment, to, **values)
    await record_deployment_alerts(session, deployment, former, now)


def add_log_line(session: AsyncSession, deployment_id: int, text: str, now: datetime) -> None:
    """Add a line that Pharos itself writes to the deployment's log."""
    session.add(DeploymentLine(deployment_id=deployment_id, at=format_time(now), stream="system", text=text))
