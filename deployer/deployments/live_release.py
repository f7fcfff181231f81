"""Which deployment's release an environment serves: one row, from which status, traffic and retention follow."""

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.tables.deployments import LiveRelease, Release


class DeploymentIsLive(Exception):
    """A deployment cannot fail any more: its release is live, and the deployment is brought to its end."""


def explain_unusable(reason: str) -> str:
    """Return the log line of a deployment that succeeds although this deployer cannot run its live release."""
    return f"The release is live, but it cannot run here: {reason}"


async def read_live_deployment(session: AsyncSession, environment_id: int) -> int | None:
    """Return the ID of the deployment that made the live release live; None if nothing is live."""
    query = (
        select(func.coalesce(LiveRelease.deployment_id, Release.deployment_id))
        .join(Release, Release.id == LiveRelease.release_id)
        .where(LiveRelease.environment_id == environment_id)
    )
    return (await session.execute(query)).scalar_one_or_none()
