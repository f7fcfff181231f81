"""Deployments as marks on telemetry: which version was live when something first happened.

Reports of `POST /v1/deployments` and Pharos' own deployments are rows of the same table. A report's ID is a UUID, an
own deployment's is its number after a prefix.
"""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.statements import insert_if_absent
from control_domain.tables.recorded_deployments import RecordedDeployment

_OWN_PREFIX = "pharos/"
_VERSION_LENGTH = 12
# A shorter prefix names too many commits.
_MIN_COMMIT_LENGTH = 7


async def mark_deployment(
    session: AsyncSession, environment_id: int, deployment_id: int, revision: str, now: datetime
) -> None:
    """Record that a deployment of Pharos makes the revision live now. Idempotent."""
    values = {
        "environment_id": environment_id,
        "deployment_id": f"{_OWN_PREFIX}{deployment_id}",
        "version": revision[:_VERSION_LENGTH],
        "commit_sha": revision,
        "deployed_at": now,
        "recorded_at": now,
    }
    await session.execute(insert_if_absent(session, RecordedDeployment, values))


def version_at(recorded: Sequence[RecordedDeployment], moment: datetime) -> str | None:
    """Return the version that was live at this moment; None before the first deployment. `recorded`: the deployments of
    one environment, oldest first.

    If a report and Pharos recorded the same commit, the version in the report counts.
    """
    earlier = [deployment for deployment in recorded if deployment.deployed_at <= moment]
    if not earlier:
        return None
    live = earlier[-1]
    if not _is_own(live):
        return live.version
    reported = [other for other in recorded if not _is_own(other) and _have_same_commit(live, other)]
    return reported[-1].version if reported else live.version


def _is_own(deployment: RecordedDeployment) -> bool:
    return deployment.deployment_id.startswith(_OWN_PREFIX)


def _have_same_commit(own: RecordedDeployment, reported: RecordedDeployment) -> bool:
    commit = (reported.commit_sha or reported.version).lower()
    return len(commit) >= _MIN_COMMIT_LENGTH and (own.commit_sha or "").startswith(commit)
