"""Deployments as markers on charts: when a release went live or failed, with its version."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Literal, TypedDict, cast

from msgspec import Meta
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.deployments.details import list_details
from control_domain.overview.visible import Visible
from control_domain.projects.describe import EnvironmentSummary, ProjectSummary
from control_domain.recorded_deployments.markers import OWN_PREFIX
from control_domain.tables.deployments import Deployment
from control_domain.tables.recorded_deployments import RecordedDeployment
from pipeline_contracts.deploy_states import DeploymentStatus
from pipeline_contracts.times import format_time

MAX_MARKERS = 500
# A deployment that waited for approval may end long after it was requested.
_LONGEST = timedelta(days=7)
_ENDED = (DeploymentStatus.SUCCEEDED, DeploymentStatus.FAILED)


class DeploymentMarker(TypedDict):
    """A deployment that went live, or failed."""

    number: Annotated[
        int | None,
        Meta(description="Null for a deployment elsewhere that was reported with `POST /v1/deployments`."),
    ]
    at: Annotated[str, Meta(description="When it went live or failed.")]
    result: Literal["succeeded", "failed"]
    project: ProjectSummary
    environment: EnvironmentSummary
    version: Annotated[
        str | None, Meta(description="The reported version, or the first digits of the commit.")
    ]
    revision: str | None
    commit_subject: str | None
    note: str | None
    by: Annotated[
        str | None,
        Meta(description="The name of the person who requested it; null for a webhook or an unknown person."),
    ]
    service: Annotated[str | None, Meta(description="The service of a reported deployment.")]


async def list_markers(
    session: AsyncSession,
    account_id: int,
    visible: Visible,
    environments: Collection[int],
    begin: datetime,
    end: datetime,
) -> Sequence[DeploymentMarker]:
    """Return the deployments of these environments in the time, the newest `MAX_MARKERS` in ascending order."""
    own = await list_details(
        session,
        account_id,
        Deployment.created_at >= begin - _LONGEST,
        Deployment.created_at < end,
        Deployment.status.in_(_ENDED),
        Deployment.environment_id.in_(environments),
        limit=2 * MAX_MARKERS,
    )
    first, last = format_time(begin), format_time(end)
    markers: list[DeploymentMarker] = [
        {
            "number": each["id"],
            "at": each["finished_at"],
            "result": cast(Literal["succeeded", "failed"], each["status"]),
            "project": each["project"],
            "environment": each["environment"],
            "version": (each["revision"] or "")[:12] or None,
            "revision": each["revision"],
            "commit_subject": each["commit_subject"],
            "note": each["note"],
            "by": None if each["asked_by"] is None else each["asked_by"]["name"],
            "service": None,
        }
        for each in own
        if each["environment"] is not None and each["finished_at"] is not None
        if first <= each["finished_at"] < last
    ]
    markers += await _list_reported(session, visible, environments, begin, end)
    markers.sort(key=lambda marker: marker["at"])
    return markers[-MAX_MARKERS:]


async def _list_reported(
    session: AsyncSession, visible: Visible, environments: Collection[int], begin: datetime, end: datetime
) -> Sequence[DeploymentMarker]:
    query = (
        select(RecordedDeployment)
        .where(
            RecordedDeployment.environment_id.in_(environments),
            RecordedDeployment.deployed_at >= begin,
            RecordedDeployment.deployed_at < end,
            RecordedDeployment.deployment_id.not_like(f"{OWN_PREFIX}%"),
        )
        .order_by(RecordedDeployment.deployed_at.desc())
        .limit(MAX_MARKERS)
    )
    return [
        {
            "number": None,
            "at": format_time(row.deployed_at),
            "result": "succeeded",
            "project": visible.project_of(visible.environments[row.environment_id]).summarize(),
            "environment": visible.environments[row.environment_id].summarize(),
            "version": row.version,
            "revision": row.commit_sha,
            "commit_subject": None,
            "note": row.note,
            "by": None,
            "service": row.service,
        }
        for row in (await session.execute(query)).scalars()
    ]
