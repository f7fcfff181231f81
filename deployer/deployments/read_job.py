"""Reads the inputs of an attempt at a deployment."""

from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.repositories.operations import choose_ref
from control_domain.sealing import CannotOpen, SealingKeys
from control_domain.tables.deployments import Deployment, LiveRelease, Release
from control_domain.tables.projects import Environment
from control_domain.tables.repositories import Repository
from control_domain.tables.variables import VariableSet
from control_domain.tables.workflows import Workflow
from control_domain.variables.versions import open_variables
from pipeline_contracts.deploy_states import DeploymentStatus, DeploymentStep
from pipeline_contracts.git_refs import is_commit

TRIGGERS_WITH_RELEASE = ("rollback", "promotion")
"""Kinds of deployments that repeat an existing release. All other kinds check out and build."""


class NoJob(Exception):
    """The deployment cannot run. The message says why."""


class PushedCommit(NamedTuple):
    """A push to the branch, as a webhook reports it. Both commits are full hashes."""

    before: str
    revision: str


@dataclass(frozen=True, slots=True)
class Job:
    """The inputs of one attempt at a deployment."""

    deployment_id: int
    trigger: str
    url: str
    ref: str
    """The branch, tag or commit that was requested."""
    revision: str | None
    """The full commit hash. None if `ref` is not resolved yet."""
    pushed: PushedCommit | None
    """The push that caused the deployment. None if there was no webhook, or if the host has already returned the
    pushed commit."""
    workflow: str | None
    """The project's workflow document. None: use the document in the repository."""
    variables_id: int | None
    variables: dict[str, str] = field(repr=False)
    replicas: int
    release: Release | None
    """The release, if it is already built: by an earlier attempt, or by the deployment that a rollback or promotion
    repeats."""
    step: DeploymentStep | None
    """The step at which to resume. None: start from the beginning."""
    status: DeploymentStatus

    @property
    def is_rollback(self) -> bool:
        return self.trigger == "rollback"


async def read_job(
    session: AsyncSession,
    keys: SealingKeys,
    deployment: Deployment,
    environment: Environment,
    repository: Repository,
    step: DeploymentStep | None,
) -> Job:
    """Return the job of a deployment that resumes at `step`. Raises `NoJob`."""
    release = await _find_release(session, deployment)
    if release is None and deployment.trigger in TRIGGERS_WITH_RELEASE:
        raise NoJob("The release that it was to bring is not retained any more: deploy its revision instead.")
    # A rollback also restores the variables of the old release. An interrupted deployment keeps the variables of its
    # first attempt.
    has_variables = release is not None and (
        deployment.trigger == "rollback" or release.deployment_id == deployment.id
    )
    variables = (
        await session.get(VariableSet, release.variables_id)
        if release is not None and has_variables and release.variables_id is not None
        else None
        if has_variables
        else await _read_frozen_variables(session, deployment)
    )
    try:
        values = open_variables(keys, variables, environment.public_id)
    except CannotOpen as error:
        raise NoJob(str(error)) from error
    return Job(
        deployment_id=deployment.id,
        trigger=deployment.trigger,
        url=repository.url,
        ref=choose_ref(deployment.ref, environment.branch, repository.branch),
        revision=deployment.approved_revision or deployment.revision,
        pushed=await _find_pushed_commit(session, deployment),
        workflow=await _read_frozen_workflow(session, deployment),
        variables_id=None if variables is None else variables.id,
        variables=values,
        replicas=environment.desired_replicas,
        release=release,
        step=step,
        status=DeploymentStatus(deployment.status),
    )


async def _read_frozen_variables(session: AsyncSession, deployment: Deployment) -> VariableSet | None:
    query = select(VariableSet).where(
        VariableSet.id == deployment.frozen_variables_id,
        VariableSet.environment_id == deployment.environment_id,
    )
    return (await session.execute(query)).scalar_one_or_none()


async def _read_frozen_workflow(session: AsyncSession, deployment: Deployment) -> str | None:
    query = select(Workflow.text).where(
        Workflow.id == deployment.frozen_workflow_id, Workflow.project_id == deployment.project_id
    )
    return (await session.execute(query)).scalar_one_or_none()


async def _find_pushed_commit(session: AsyncSession, deployment: Deployment) -> PushedCommit | None:
    """Return the pushed commit, which the Git host may not return yet.

    Return None if the host has returned this commit before, because it was deployed or was the start of a later push.
    If the branch is at the earlier commit then, somebody has reset the branch, and a repeated webhook must not undo
    the reset.
    """
    before, revision = deployment.pushed_from, deployment.pushed_revision
    if before is None or revision is None or not (is_commit(before) and is_commit(revision)):
        return None
    returned = select(Deployment.id).where(
        Deployment.environment_id == deployment.environment_id,
        Deployment.id != deployment.id,
        or_(Deployment.revision == revision, Deployment.pushed_from == revision),
    )
    return PushedCommit(before, revision) if await session.scalar(returned.limit(1)) is None else None


async def _find_release(session: AsyncSession, deployment: Deployment) -> Release | None:
    """Return the release that the deployment has made live, has built, or repeats."""
    live = await session.get(LiveRelease, deployment.environment_id)
    if live is not None and live.deployment_id == deployment.id:
        return await session.get(Release, live.release_id)
    repeated = deployment.rolled_back_to_id or deployment.promoted_from_id
    query = select(Release).where(Release.deployment_id == deployment.id, Release.removed_at.is_(None))
    own = (await session.execute(query)).scalar_one_or_none()
    if own is not None or repeated is None:
        return own
    # The promoted deployment may be a rollback, whose release belongs to another deployment.
    source = await session.get(Deployment, repeated)
    if source is not None and source.rolled_back_to_id is not None:
        repeated = source.rolled_back_to_id
    query = select(Release).where(Release.deployment_id == repeated, Release.removed_at.is_(None))
    return (await session.execute(query)).scalar_one_or_none()
