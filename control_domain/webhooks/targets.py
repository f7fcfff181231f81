"""Which repositories a delivery is about, and what deploys in their projects without being asked."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.documents.faults import DocumentFault
from control_domain.previews import PREVIEW
from control_domain.projects.find import Place
from control_domain.tables.deployments import Deployment, LiveRelease, Release
from control_domain.tables.projects import Environment, Project
from control_domain.tables.repositories import Repository
from control_domain.webhooks.installations import find_installed_repository, note_name
from control_domain.webhooks.recognize import describe_other, is_of_other_host, learn, note_rename
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
    """A repository that webhooks deploy from, and the project that it is of."""

    repository: Repository
    project: Project


IS_LISTENED_TO = Repository.disconnected_at.is_(None) & Repository.push_deploys
"""That a repository is connected, and its push deploys are not turned off."""


def _listening() -> Any:
    # Account scope: the URL of the webhook names the repository, and the signature proves it.
    return (
        select(Repository, Project).join(Project, Project.id == Repository.project_id).where(IS_LISTENED_TO)
    )


async def find_target(session: AsyncSession, repository_id: int) -> Target:
    """The repository of this number. Raises `NotFound` for one that is not connected, or whose push deploys are turned
    off."""
    row = (await session.execute(_listening().where(Repository.id == repository_id))).one_or_none()
    if row is None:
        raise unknown_repository()
    return Target(*row)


def unknown_repository() -> NotFound:
    """The one answer to all who ask for what they may not have."""
    return NotFound("There is no such repository, or its push deploys are turned off.")


async def find_installed(
    session: AsyncSession, installation: int | None, hosted: HostedRepository
) -> Sequence[Target]:
    """The repositories that are connected via this installation of the Git host's application, whatever their name is
    now. Raises `NotFound` where there is none."""
    installed = await find_installed_repository(session, installation, hosted)
    if installed is None:
        raise NotFound(
            f"The installation {installation} may not see the repository {hosted.full_name}, as far as its host has "
            "told: let the application see it there."
        )
    names = {hosted.full_name.lower(), installed.full_name}
    await note_name(session, installed, hosted)
    unknown = Repository.host_id.is_(None) & Repository.full_name.in_(names)
    # One of the same name and another ID is looked at as well, for the message.
    is_it = unknown | (Repository.host_id == hosted.id) | (Repository.full_name == hosted.full_name.lower())
    query = _listening().where(Repository.kind == GITHUB.kind, is_it).order_by(Repository.id)
    found = [Target(*row) for row in await session.execute(query)]
    found = [one for one in found if not is_of_other_host(one.repository, hosted)]
    for one in found:
        if one.repository.host_id is None and hosted.id is not None:
            await learn(session, one.repository, hosted.id)
    told = [one for one in found if hosted.id in (None, one.repository.host_id)]
    for one in told:
        if hosted.id is not None:
            await note_rename(session, one.repository, hosted)
    if found and not told:
        raise NotFound(describe_other(found[0].repository, hosted))
    if not told:
        raise NotFound(
            f"No repository that is connected is {hosted.full_name}, which the installation {installation} tells of: "
            "connect it with `pharos repository connect`."
        )
    return told


async def find_triggers(session: AsyncSession, project: Project) -> Triggers:
    """Of the project's workflow document; without one, of the document that its newest release was built by, previews
    left out. Raises `RepositoryNotReady` where there is neither."""
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
    kept = (await session.execute(newest)).scalar_one_or_none()
    if kept is not None:
        try:
            return from_json(msgspec.json.decode(kept)).triggers
        except KeyError:
            # Of a version that did not keep it.
            pass
    raise RepositoryNotReady(
        "Nothing says yet which branch is deployed where: deploy once by hand, so that the pharos.yaml of the "
        "repository is known, or set a workflow document with `pharos workflow set`."
    )


async def find_place(session: AsyncSession, project: Project, slug: str, *, to_deploy: bool = False) -> Place:
    """Return the environment that a trigger names, locked against changes until the end of the transaction.

    `to_deploy`: also lock out deployments of other pushes until then. Raises `RepositoryNotReady` if the project has no
    environment of that slug.
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
    return Place(environment, project)


@contextmanager
def taking_deploys(environment: Environment) -> Iterator[None]:
    """What is tried of an environment. Raises `RepositoryNotReady` where it takes no deploys now, by hand or by
    webhook."""
    slug = environment.slug
    try:
        yield
    except (EnvironmentLocked, OutsideWindow, EnvironmentNotReady) as error:
        raise RepositoryNotReady(f"{slug}: {error.detail}") from error
    except NotFound as error:
        # It is no fault of the delivery: what else it names can be deployed.
        raise RepositoryNotReady(f"{slug}: the environment was removed meanwhile.") from error


async def is_held(session: AsyncSession, environment: Environment) -> bool:
    """Whether somebody rolled back there: pushes do not deploy over it."""
    query = select(LiveRelease.held).where(LiveRelease.environment_id == environment.id)
    return bool((await session.execute(query)).scalar_one_or_none())
