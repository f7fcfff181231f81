"""Deployments as markers on telemetry: the version that was live when something first happened.

Reports through `POST /v1/deployments` and Pharos' own deployments are rows of the same table. The ID of a report is a
UUID. The ID of an own deployment is a prefix and its number.
"""

from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.statements import insert_if_absent
from control_domain.tables.recorded_deployments import RecordedDeployment

OWN_PREFIX = "pharos/"
_VERSION_LENGTH = 12


async def mark_deployment(
    session: AsyncSession, environment_id: int, deployment_id: int, revision: str, now: datetime
) -> None:
    """Record that a deployment of Pharos makes the revision live now. Idempotent."""
    values = {
        "environment_id": environment_id,
        "deployment_id": f"{OWN_PREFIX}{deployment_id}",
        "version": revision[:_VERSION_LENGTH],
        "commit_sha": revision,
        "deployed_at": now,
        "recorded_at": now,
    }
    await session.execute(insert_if_absent(session, RecordedDeployment, values))
