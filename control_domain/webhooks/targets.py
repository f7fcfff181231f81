"""Finds the repositories that a delivery is about, and the triggers and environments of their projects."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.documents.faults import DocumentFault
from control_domain.previews.operations import PREVIEW
from control_domain.projects.find import DeployTarget
from control_domain.tables.deployments import Deployment, LiveRelease, Release
from control_domain.tables.projects import Environment, Project
from control_domain.tables.repositories import Repository
from control_domain.webhooks.installations import find_installed_repository, store_installed_name
from control_domain.webhooks.repository_identity import (
    explain_mismatch,
    is_on_other_host,
    store_host_id,
    store_new_name,
)
from control_domain.workflows.document import Triggers, from_json
from control_domain.workflows.operations import find_newest_workflow
from control_domain.workflows.read_workflow import read_workflow
from git_hosts.github.host import GITHUB
from git_hosts.webhook_events import HostedRepository
from pipeline_contracts.deploy_states import DeploymentStatus
from pipeline_contracts.errors import (
    EnvironmentLocked,
    EnvironmentNotReady,
    NotFound,
    OutsideWindow,
    RepositoryNotReady,
)


class Target(NamedTuple):
    """A repository that webhooks deploy from, and its project."""

    repository: Repository
    project: Project


ACCEPTS_PUSHES = Repository.disconnected_at.is_(None) & Repository.push_deploys
"""Condition: the repository is connected, and its push deploys are on."""


def _select_targets() -> Any:
    # Account scope: the URL of the webhook names the repository, and the signature proves it.
    return (
        select(Repository, Project).join(Project, Project.id == Repository.project_id).where(ACCEPTS_PUSHES)
    )


async def find_target(session: AsyncSession, repository_id: int) -> Target:
    """Return the repository with this ID. Raises `NotFound` if it is not connected, or its push deploys are off."""
    row = (await session.execute(_select_targets().where(Repository.id == repository_id))).one_or_none()
    if row is None:
        raise unknown_repository_error()
    return Target(*row)


def unknown_repository_error() -> NotFound:
    """Return the same error for all repositories that a caller may not use, existing or not."""
    return NotFound("There is no such repository, or its push deploys are turned off.")


async def find_installed_targets(
    session: AsyncSession, installation: int | None, hosted: HostedRepository
) -> Sequence[Target]:
    """Return the connected repositories that match `hosted`, also after a rename, if the installation may access it.
    Raises `NotFound` if there is none."""
    installed = await find_installed_repository(session, installation, hosted)
    if installed is None:
        raise NotFound(
            f"The host has not reported that the installation {installation} may access the repository "
            f"{hosted.full_name}. Give the application access to it there."
        )
    names = {hosted.full_name.lower(), installed.full_name}
    await store_installed_name(session, installed, hosted)
    without_id = Repository.host_id.is_(None) & Repository.full_name.in_(names)
    # Include a repository with the same name and another ID, for the error message.
    condition = (
        without_id | (Repository.host_id == hosted.id) | (Repository.full_name == hosted.full_name.lower())
    )
    query = _select_targets().where(Repository.kind == GITHUB.kind, condition).order_by(Repository.id)
    found = [Target(*row) for row in await session.execute(query)]
    found = [target for target in found if not is_on_other_host(target.repository, hosted)]
    for target in found:
        if target.repository.host_id is None and hosted.id is not None:
            await store_host_id(session, target.repository, hosted.id)
    matching = [target for target in found if hosted.id in (None, target.repository.host_id)]
    for target in matching:
        if hosted.id is not None:
            await store_new_name(session, target.repository, hosted)
    if found and not matching:
        raise NotFound(explain_mismatch(found[0].repository, hosted))
    if not matching:
        raise NotFound(
            f"The installation {installation} sent a delivery of {hosted.full_name}, which is not connected: "
            "connect it to a project."
        )
    return matching


async def find_triggers(session: AsyncSession, project: Project) -> Triggers:
    """Return the triggers of the project's workflow document, or else of the document that built its newest release
    outside previews. Raises `RepositoryNotReady` if there is neither."""
    present = await find_newest_workflow(session, project.id)
    if present is not None:
        try:
            return read_workflow(present.text).triggers
        except DocumentFault as error:
            raise RepositoryNotReady(f"The project's workflow document cannot be used: {error}") from error
    newest = (
        select(Release.workflow)
        .join(Deployment, Deployment.id == Release.deployment_id)
        .join(Environment, Environment.id == Release.environment_id)
        .where(
            Environment.project_id == project.id,
            Environment.type != PREVIEW,
            Deployment.status == DeploymentStatus.SUCCEEDED,
        )
        .order_by(Release.id.desc())
        .limit(1)
    )
    stored = (await session.execute(newest)).scalar_one_or_none()
    if stored is not None:
        try:
            return from_json(msgspec.json.decode(stored)).triggers
        except KeyError:
            # An earlier version of Pharos did not store triggers with the release.
            pass
    raise RepositoryNotReady(
        "The branches to deploy are not known yet: deploy once by hand, so that the pharos.yaml of the "
        "repository is known, or set a workflow document."
    )


async def find_trigger_environment(
    session: AsyncSession, project: Project, slug: str, *, to_deploy: bool = False
) -> DeployTarget:
    """Return the environment that a trigger names, locked against changes until the end of the transaction.

    `to_deploy`: also lock out deployments of other pushes until then. Raises `RepositoryNotReady` if the project has
    no environment with this slug.
    """
    query = select(Environment).where(Environment.project_id == project.id, Environment.slug == slug)
    # Lock the environment before the rows that refer to it, and with the final lock strength: on Postgres a
    # transaction that removes the environment would deadlock with one that upgrades a weaker lock.
    query = query.with_for_update(read=not to_deploy, key_share=to_deploy)
    environment = (await session.execute(query)).scalar_one_or_none()
    if environment is None:
        raise RepositoryNotReady(
            f"The workflow's triggers name the environment {slug}, which the project {project.slug} does not have."
        )
    return DeployTarget(environment, project)


@contextmanager
def raising_not_ready(environment: Environment) -> Iterator[None]:
    """Convert errors for an environment that accepts no deploys now to `RepositoryNotReady`."""
    slug = environment.slug
    try:
        yield
    except (EnvironmentLocked, OutsideWindow, EnvironmentNotReady) as error:
        raise RepositoryNotReady(f"{slug}: {error.detail}") from error
    except NotFound as error:
        # This is not an error of the delivery: its other environments can be deployed.
        raise RepositoryNotReady(f"{slug}: the environment was removed meanwhile.") from error


async def is_rolled_back(session: AsyncSession, environment: Environment) -> bool:
    """Return True if the environment was rolled back, so that pushes do not deploy to it."""
    query = select(LiveRelease.held).where(LiveRelease.environment_id == environment.id)
    return bool((await session.execute(query)).scalar_one_or_none())
