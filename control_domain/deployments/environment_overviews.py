"""Environments of all projects that a caller may read, each with its live and its newest deployment."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from msgspec import Meta
from sqlalchemy import and_, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import sees_all_projects
from control_domain.deployments.details import DeploymentDetails, list_details
from control_domain.deployments.runtime import count_desired, read_instances, read_runtimes
from control_domain.environments.describe import EnvironmentDetails
from control_domain.environments.describe import list_details as list_environment_details
from control_domain.projects.find import DeployTarget, is_callers_role
from control_domain.tables.deployments import Deployment, LiveRelease, Release
from control_domain.tables.projects import Environment, Project, ProjectRole


class EnvironmentOverview(EnvironmentDetails):
    """An environment with its address, its processes, and its live and newest deployments."""

    address: Annotated[
        str | None, Meta(description="The URL of the environment. Null until a deployer has it.")
    ]
    running: Annotated[int, Meta(description="The number of instances in the state `running`.")]
    desired: Annotated[
        int | None, Meta(description="The desired number of instances. Null if the release does not say.")
    ]
    live_deployment: Annotated[
        DeploymentDetails | None, Meta(description="The deployment that made the live release live.")
    ]
    newest_deployment: DeploymentDetails | None


class OverviewPage(NamedTuple):
    """A page of environments, and the sort key of its last one if more follow."""

    items: Sequence[EnvironmentOverview]
    last_key: str | None


async def list_overviews(
    session: AsyncSession, caller: Caller, project: Project | None, limit: int, after: str | None
) -> OverviewPage:
    """Return a page of the environments in projects that the caller may read, or of one such project.

    The newest project first; the environments of a project in the order in which deployments are promoted.

    `after`: the sort key of the last environment of the page before.
    """
    found = await _find_targets(session, caller, project, limit + 1, after)
    targets = found[:limit]
    last = targets[-1] if len(found) > limit else None
    key = None if last is None else f"{last.project.id}:{last.environment.position}:{last.environment.id}"
    return OverviewPage(await _describe(session, caller, targets), key)


async def _find_targets(
    session: AsyncSession, caller: Caller, project: Project | None, limit: int, after: str | None
) -> Sequence[DeployTarget]:
    query = (
        select(Environment, Project)
        .join(Project, Project.id == Environment.project_id)
        .where(Project.account_id == caller.account.id)
        .order_by(Project.id.desc(), Environment.position, Environment.id)
        .limit(limit)
    )
    if project is not None:
        query = query.where(Project.id == project.id)
    elif not sees_all_projects(caller.role):
        query = query.join(ProjectRole, is_callers_role(caller))
    if after is not None:
        project_id, position, number = (int(part) for part in after.split(":"))
        follows = or_(
            Environment.position > position,
            and_(Environment.position == position, Environment.id > number),
        )
        query = query.where(or_(Project.id < project_id, and_(Project.id == project_id, follows)))
    return [DeployTarget(*row) for row in await session.execute(query)]


async def _describe(
    session: AsyncSession, caller: Caller, targets: Sequence[DeployTarget]
) -> list[EnvironmentOverview]:
    environments = [target.environment for target in targets]
    ids = [environment.id for environment in environments]
    documents = await list_environment_details(session, targets)
    runtimes = await read_runtimes(session, environments)
    instances = await read_instances(session, ids)
    live = await _read_live_deployments(session, ids)
    newest = await _read_newest_deployments(session, ids)
    numbers = {*live.values(), *newest.values()}
    deployments = {
        document["id"]: document
        for document in await list_details(session, caller.account.id, Deployment.id.in_(numbers))
    }
    overviews: list[EnvironmentOverview] = []
    for environment, document in zip(environments, documents, strict=True):
        runtime = runtimes.get(environment.id)
        overviews.append(
            {
                **document,
                "address": None if runtime is None or runtime.lease is None else runtime.lease.address,
                "running": sum(each.state == "running" for each in instances.get(environment.id, ())),
                "desired": None if runtime is None else count_desired(environment, runtime.release),
                "live_deployment": deployments.get(live.get(environment.id, 0)),
                "newest_deployment": deployments.get(newest.get(environment.id, 0)),
            }
        )
    return overviews


async def _read_live_deployments(session: AsyncSession, ids: Sequence[int]) -> dict[int, int]:
    """Return the number of the deployment that made the live release live, by environment."""
    query = (
        select(LiveRelease.environment_id, func.coalesce(LiveRelease.deployment_id, Release.deployment_id))
        .join(Release, Release.id == LiveRelease.release_id)
        .where(LiveRelease.environment_id.in_(ids))
    )
    return {environment_id: number or 0 for environment_id, number in await session.execute(query)}


async def _read_newest_deployments(session: AsyncSession, ids: Sequence[int]) -> dict[int, int]:
    """Return the number of the newest deployment, by environment."""
    # Account scope: the environments are of the caller's account. One lookup at the end of the index for each
    # environment: a GROUP BY would read all their deployments.
    newest = (
        select(func.max(Deployment.id))
        .where(Deployment.environment_id == Environment.id)
        .correlate(Environment)
        .scalar_subquery()
    )
    query = select(Environment.id, newest).where(Environment.id.in_(ids))
    return {environment_id: number or 0 for environment_id, number in await session.execute(query)}
