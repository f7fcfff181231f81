"""Reads and changes rows of deployments behind the control plane's back."""

from typing import Any

from sqlalchemy import select, update

from control_domain.tables.deployments import Deployment, DeploymentLine
from tests.support.deploy_platform import Platform


async def read_outcome(platform: Platform, number: int) -> tuple[str, str]:
    """Return the deployment's status, and the last line of its log."""
    async with platform.sessions() as session:
        lines = select(DeploymentLine.text).where(DeploymentLine.deployment_id == number)
        last = (await session.execute(lines.order_by(DeploymentLine.id.desc()).limit(1))).scalar_one()
        return (await session.get_one(Deployment, number)).status, last


async def change_deployment(platform: Platform, number: int, **values: Any) -> None:
    """Set columns of the deployment."""
    async with platform.sessions() as session, session.begin():
        await session.execute(update(Deployment).where(Deployment.id == number).values(**values))
