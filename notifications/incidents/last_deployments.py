"""Finds the last deployment before an incident, which is the most frequent cause of incidents."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.tables.deployments import Deployment
from pipeline_contracts.deploy_states import DeploymentStatus
from pipeline_contracts.times import format_time

_DEPLOYMENTS = 20
"""How many of an environment's newest deployments are searched for the last one before an incident."""


class LastDeployments:
    """Finds deployments of environments. The newest successful deployments of each environment are read
    once."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._read: dict[int, list[Deployment]] = {}

    async def read(self, environments: Iterable[int]) -> None:
        """Read the newest successful deployments of these environments, unless they were read before."""
        for environment in environments:
            if environment not in self._read:
                self._read[environment] = await self._select(environment)

    async def _select(self, environment: int) -> list[Deployment]:
        query = (
            select(Deployment)
            .where(
                Deployment.environment_id == environment,
                Deployment.status == DeploymentStatus.SUCCEEDED.value,
            )
            .order_by(Deployment.id.desc())
            .limit(_DEPLOYMENTS)
        )
        return list(await self._session.scalars(query))

    def find_before(self, environment: int | None, at: datetime) -> dict[str, Any] | None:
        """Return the deployment that was the last to finish before this time, in the form of
        `DeploymentBefore`. None if there is none."""
        for deployment in self._read.get(environment or 0, ()):
            if deployment.finished_at is not None and deployment.finished_at <= at:
                return {
                    "number": deployment.id,
                    "revision": deployment.revision,
                    "finished_at": format_time(deployment.finished_at),
                    "subject": deployment.commit_subject,
                }
        return None
