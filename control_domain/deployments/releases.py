"""The releases of an environment that are retained, for rollbacks."""

from collections.abc import Sequence
from typing import Annotated, TypedDict

from msgspec import Meta
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.paging import Page
from control_domain.tables.deployments import Deployment, LiveRelease, Release
from control_domain.tables.projects import Environment
from control_domain.tables.variables import VariableSet
from pipeline_contracts.deploy_states import DeploymentStatus
from pipeline_contracts.times import format_time


class LivePeriod(TypedDict):
    """The present live period of a release."""

    since: str
    deployment_id: Annotated[
        int,
        Meta(description="The deployment that made it live: the deployment that built it, or a rollback."),
    ]
    held: Annotated[bool, Meta(description="True after a rollback: pushes do not replace this release.")]


class ReleaseDocument(TypedDict):
    """A release that is retained: `POST /v1/deployments/{build}/rollback` makes it live again."""

    deployment_id: Annotated[int, Meta(description="The deployment that built it.")]
    revision: str
    variables_version: Annotated[
        int | None, Meta(description="The variables that it runs with. Null without variables.")
    ]
    created_at: str
    live: Annotated[LivePeriod | None, Meta(description="Null unless this release is live.")]


async def list_releases(
    session: AsyncSession, environment: Environment, page: Page
) -> tuple[Sequence[ReleaseDocument], int | None]:
    """Return a page of the retained releases, the newest first, and the ID of its last one if more follow."""
    query = (
        select(Release, VariableSet.version, LiveRelease)
        .join(Deployment, Deployment.id == Release.deployment_id)
        .outerjoin(VariableSet, VariableSet.id == Release.variables_id)
        .outerjoin(LiveRelease, LiveRelease.release_id == Release.id)
        .where(
            Release.environment_id == environment.id,
            Release.removed_at.is_(None),
            # Releases of failed deployments were never live.
            Deployment.status == DeploymentStatus.SUCCEEDED,
        )
        .order_by(Release.id.desc())
        .limit(page.limit + 1)
    )
    if page.before is not None:
        query = query.where(Release.id < page.before)
    found = (await session.execute(query)).all()
    shown = found[: page.limit]
    documents = [_describe(release, version, live) for release, version, live in shown]
    return documents, shown[-1][0].id if len(found) > page.limit else None


def _describe(release: Release, version: int | None, live: LiveRelease | None) -> ReleaseDocument:
    return {
        "deployment_id": release.deployment_id,
        "revision": release.revision,
        "variables_version": version,
        "created_at": format_time(release.created_at),
        "live": None
        if live is None
        else {
            "since": format_time(live.since),
            "deployment_id": live.deployment_id or release.deployment_id,
            "held": live.held,
        },
    }
