"""One deployment with its steps, its repository, and the present state of its release."""

from typing import Annotated, TypedDict, cast

from msgspec import Meta
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.deployments.details import DeploymentDetails, read_details
from control_domain.deployments.find import FoundDeployment
from control_domain.deployments.operations import find_retained_release
from control_domain.deployments.progress import StepDocument, describe_steps
from control_domain.tables.deployments import LiveRelease, Release
from control_domain.tables.projects import Environment
from control_domain.tables.repositories import Repository
from control_domain.tables.runtime import EnvironmentLease


class SourceRepository(TypedDict):
    """The repository of a deployment."""

    url: str
    kind: str


class DeploymentOverview(DeploymentDetails):
    """A deployment with its steps, its repository, and the present state of its release."""

    steps: Annotated[list[StepDocument], Meta(description="The steps that have begun, in order.")]
    attempts: Annotated[
        int,
        Meta(
            description="The number of deployers that worked on it: more than 1 if one ended "
            "and another one continued."
        ),
    ]
    repository: SourceRepository
    address: Annotated[
        str | None, Meta(description="The URL of the environment. Null until a deployer has it.")
    ]
    is_live: Annotated[
        bool,
        Meta(description="True if this deployment made the release live that the environment serves now."),
    ]
    is_retained: Annotated[
        bool, Meta(description="True if a rollback or a promotion can make its release live again.")
    ]
    live_deployment_id: Annotated[
        int | None,
        Meta(
            description="The deployment that made the environment's live release live. Null if nothing is live."
        ),
    ]
    live_revision: str | None


async def read_overview(session: AsyncSession, found: FoundDeployment) -> DeploymentOverview:
    """Return the document of a deployment that the caller may read."""
    deployment = found.deployment
    details = await read_details(session, deployment)
    url, kind = (
        await session.execute(
            select(Repository.url, Repository.kind).where(
                Repository.id == deployment.repository_id, Repository.project_id == found.project.id
            )
        )
    ).one()
    live_deployment_id, live_revision = await _read_live(session, found.environment)
    return {
        **details,
        "steps": [*describe_steps(deployment)],
        "attempts": deployment.attempts,
        "repository": {"url": url, "kind": kind},
        "address": await _read_address(session, found.environment),
        "is_live": live_deployment_id == deployment.id,
        "is_retained": found.environment is not None
        and await find_retained_release(session, deployment) is not None,
        "live_deployment_id": live_deployment_id,
        "live_revision": live_revision,
    }


async def _read_live(session: AsyncSession, environment: Environment | None) -> tuple[int | None, str | None]:
    if environment is None:
        return None, None
    query = (
        select(func.coalesce(LiveRelease.deployment_id, Release.deployment_id), Release.revision)
        .join(Release, Release.id == LiveRelease.release_id)
        .where(LiveRelease.environment_id == environment.id)
    )
    row = (await session.execute(query)).one_or_none()
    return (None, None) if row is None else (row[0], row[1])


async def _read_address(session: AsyncSession, environment: Environment | None) -> str | None:
    if environment is None:
        return None
    query = select(EnvironmentLease.address).where(EnvironmentLease.environment_id == environment.id)
    return cast(str | None, await session.scalar(query))
