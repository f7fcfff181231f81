"""A deployment is taken up: whether it may go on is asked again, and how far an earlier deployer was with it."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.engine import Sessions
from control_domain.deployments.frozen import Inputs, find_changed, freeze, inputs_of
from control_domain.deployments.moves import add_line, move_deployment
from control_domain.deployments.queue_deployment import revision_to_approve
from control_domain.environments.check_open import check_open
from control_domain.repositories.operations import choose_ref
from control_domain.sealing import CannotOpen, SealingKeys
from control_domain.tables.deployments import Deployment, LiveRelease, Release
from control_domain.tables.projects import Environment
from control_domain.tables.repositories import Repository
from control_domain.tables.variables import VariableSet
from control_domain.tables.workflows import Workflow
from control_domain.variables.operations import open_variables
from deployer.deployments.live_release import explain_unusable, read_live_deployment
from deployer.deployments.log import utc_now
from deployer.leases import Lease, lock_lease
from deployer.shield import shielded
from pipeline_contracts.deploy_states import ACTIVE, DeploymentStatus, DeploymentStep
from pipeline_contracts.errors import Problem
from pipeline_contracts.git_refs import is_commit

_MOST_ATTEMPTS = 3
_INTERRUPTED = "The deployer was ended in the middle of this"
# They bring a release that is built already; all others check out and build.
_BRINGING = ("rollback", "promotion")


class PushedCommit(NamedTuple):
    """How a webhook says that the branch was moved. Both are whole commits."""

    before: str
    revision: str


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be carried out."""

    deployment_id: int
    trigger: str
    url: str
    ref: str
    """Branch, tag or commit."""
    revision: str | None
    """The commit, where it is bound already."""
    pushed: PushedCommit | None
    """None: no webhook tells, or the host has shown that commit before."""
    workflow: str | None
    """The project's document; None: the repository has its own."""
    variables_id: int | None
    variables: dict[str, str] = field(repr=False)
    replicas: int
    release: Release | None
    """What is built already: by this deployment before it was interrupted, or by the one that it brings again."""
    step: DeploymentStep | None
    """How far it was; None: it begins."""
    status: DeploymentStatus

    @property
    def is_rollback(self) -> bool:
        return self.trigger == "rollback"


@shielded
async def begin_attempt(
    sessions: Sessions, lease: Lease, keys: SealingKeys, deployment_id: int
) -> Job | None:
    """Return the job of a deployment; None if the deployment has ended, or is refused here. A deployment whose live
    release cannot run here succeeds: see `explain_unusable`. Raises `LeaseLost`."""
    async with sessions() as session, session.begin():
        await lock_lease(session, lease, doing=f"deployment {deployment_id}")
        row = (
            await session.execute(
                select(Deployment, Environment, Repository)
                .join(Environment, Environment.id == Deployment.environment_id)
                .join(Repository, Repository.id == Deployment.repository_id)
                .where(Deployment.id == deployment_id, Deployment.status.in_(ACTIVE))
            )
        ).one_or_none()
        if row is None:
            return None
        deployment, environment, repository = row
        now = utc_now()
        is_first = deployment.status == DeploymentStatus.QUEUED
        step = None if is_first or deployment.step is None else DeploymentStep(deployment.step)
        is_live = await read_live_deployment(session, environment.id) == deployment.id
        if is_live or step is DeploymentStep.SWITCH:
            # The row of the live release says how far it was, and nothing else.
            step = DeploymentStep.SWITCH if is_live else DeploymentStep.START
        revision = deployment.approved_revision or deployment.revision
        inputs = await inputs_of(session, deployment, environment, revision)
        refusal = await _refusal(session, deployment, environment, repository, inputs, now)
        if refusal is None and not is_first:
            refusal = _given_up(deployment, step)
        if refusal is None and not is_live and (is_first or deployment.frozen_at is None):
            refusal = _freeze(deployment, inputs, now)
        if refusal is None:
            found = await _job(session, keys, deployment, environment, repository, step)
            if isinstance(found, Job):
                await _begin(session, deployment, step, now)
                return found
            refusal = _Refusal(DeploymentStatus.FAILED, found)
        if is_live:
            add_line(session, deployment.id, explain_unusable(refusal.reason), now)
            await session.flush()
            await move_deployment(session, deployment, DeploymentStatus.SUCCEEDED, now)
            return None
        await _turn_down(session, deployment, refusal, now)
        return None


@dataclass(frozen=True, slots=True)
class _Refusal:
    to: DeploymentStatus
    reason: str


async def _refusal(
    session: AsyncSession,
    deployment: Deployment,
    environment: Environment,
    repository: Repository,
    inputs: Inputs,
    now: datetime,
) -> _Refusal | None:
    """Why it may not begin after all: what was allowed when it was asked for may not be any more."""
    if deployment.status != DeploymentStatus.QUEUED:
        return None
    try:
        await check_open(session, environment, now)
    except Problem as problem:
        return _Refusal(DeploymentStatus.CANCELED, f"Canceled: {problem.detail}")
    if repository.disconnected_at is not None and inputs.brings_id is None:
        return _Refusal(DeploymentStatus.CANCELED, "Canceled: the repository was disconnected.")
    if deployment.trigger == "rollback":
        return None
    if not (deployment.needs_approval or environment.deploys_need_approval):
        return None
    if deployment.decided_by_id is None:
        return _Refusal(
            DeploymentStatus.AWAITING_APPROVAL,
            "The environment wants a second person by now: it waits for the approval of one.",
        )
    if deployment.approved_digest == inputs.digest():
        return None
    changed = find_changed(deployment, inputs)
    why = (
        f"The {changed} changed after the approval" if changed else "The approval does not cover the workflow"
    )
    return _Refusal(DeploymentStatus.AWAITING_APPROVAL, f"{why}: the deployment waits for another one.")


def _freeze(deployment: Deployment, inputs: Inputs, now: datetime) -> _Refusal | None:
    """Write down what it runs from here on, for whoever takes it up again. What an earlier version has begun has no
    such note: of what was approved, nobody knows what that was."""
    if deployment.status == DeploymentStatus.DEPLOYING and deployment.needs_approval:
        told = "An earlier version of Pharos began this and did not keep which workflow was approved: deploy again."
        return _Refusal(DeploymentStatus.FAILED, told)
    for column, value in freeze(inputs, now).items():
        setattr(deployment, column, value)
    return None


def _given_up(deployment: Deployment, step: DeploymentStep | None) -> _Refusal | None:
    """Why it is not gone on with."""
    if step is DeploymentStep.RELEASE:
        return _Refusal(
            DeploymentStatus.FAILED,
            f"{_INTERRUPTED}: the release steps may have run in part and are not run twice. The former release stays "
            "live; look at what they did, then deploy again.",
        )
    if deployment.attempts >= _MOST_ATTEMPTS and step is not DeploymentStep.SWITCH:
        return _Refusal(
            DeploymentStatus.FAILED, f"{_INTERRUPTED}, for the {_MOST_ATTEMPTS}rd time: it is given up."
        )
    return None


async def _job(
    session: AsyncSession,
    keys: SealingKeys,
    deployment: Deployment,
    environment: Environment,
    repository: Repository,
    step: DeploymentStep | None,
) -> Job | str:
    """The job, or why it cannot be one."""
    release = await _release(session, deployment)
    if release is None and deployment.trigger in _BRINGING:
        return "The release that it was to bring is not retained any more: deploy its revision instead."
    # A rollback brings the variables back as well; what is half done goes on with those that it began with.
    own = release is not None and (deployment.trigger == "rollback" or release.deployment_id == deployment.id)
    variables = (
        await session.get(VariableSet, release.variables_id)
        if release is not None and own and release.variables_id is not None
        else None
        if own
        else await _frozen_variables(session, deployment)
    )
    try:
        values = open_variables(keys, variables, environment.public_id)
    except CannotOpen as error:
        return str(error)
    return Job(
        deployment_id=deployment.id,
        trigger=deployment.trigger,
        url=repository.url,
        ref=choose_ref(deployment.ref, environment.branch, repository.branch),
        revision=deployment.approved_revision or deployment.revision,
        pushed=await _pushed(session, deployment),
        workflow=await _frozen_workflow(session, deployment),
        variables_id=None if variables is None else variables.id,
        variables=values,
        replicas=environment.desired_replicas,
        release=release,
        step=step,
        status=DeploymentStatus(deployment.status),
    )


async def _frozen_variables(session: AsyncSession, deployment: Deployment) -> VariableSet | None:
    query = select(VariableSet).where(
        VariableSet.id == deployment.frozen_variables_id,
        VariableSet.environment_id == deployment.environment_id,
    )
    return (await session.execute(query)).scalar_one_or_none()


async def _frozen_workflow(session: AsyncSession, deployment: Deployment) -> str | None:
    query = select(Workflow.text).where(
        Workflow.id == deployment.frozen_workflow_id, Workflow.project_id == deployment.project_id
    )
    return (await session.execute(query)).scalar_one_or_none()


async def _pushed(session: AsyncSession, deployment: Deployment) -> PushedCommit | None:
    """What a host that is behind its own webhook does not show yet.

    None for a commit that it must have shown since, because it was deployed, or pushed away: where the branch is back
    at the commit before, somebody has set it back, and a delivery that is sent again does not undo that.
    """
    before, revision = deployment.pushed_from, deployment.pushed_revision
    if before is None or revision is None or not (is_commit(before) and is_commit(revision)):
        return None
    shown = select(Deployment.id).where(
        Deployment.environment_id == deployment.environment_id,
        Deployment.id != deployment.id,
        or_(Deployment.revision == revision, Deployment.pushed_from == revision),
    )
    return PushedCommit(before, revision) if await session.scalar(shown.limit(1)) is None else None


async def _release(session: AsyncSession, deployment: Deployment) -> Release | None:
    """What it has made live, has built, or brings again."""
    live = await session.get(LiveRelease, deployment.environment_id)
    if live is not None and live.deployment_id == deployment.id:
        return await session.get(Release, live.release_id)
    brought = deployment.rolled_back_to_id or deployment.promoted_from_id
    query = select(Release).where(Release.deployment_id == deployment.id, Release.removed_at.is_(None))
    own = (await session.execute(query)).scalar_one_or_none()
    if own is not None or brought is None:
        return own
    # Promoted may be a rollback as well: what it brought is another's.
    source = await session.get(Deployment, brought)
    if source is not None and source.rolled_back_to_id is not None:
        brought = source.rolled_back_to_id
    query = select(Release).where(Release.deployment_id == brought, Release.removed_at.is_(None))
    return (await session.execute(query)).scalar_one_or_none()


async def _begin(
    session: AsyncSession, deployment: Deployment, step: DeploymentStep | None, now: datetime
) -> None:
    """Count the attempt."""
    deployment.attempts += 1
    if deployment.status == DeploymentStatus.QUEUED:
        await session.flush()
        await move_deployment(session, deployment, DeploymentStatus.DEPLOYING, now)
    elif step is DeploymentStep.SWITCH:
        add_line(session, deployment.id, f"{_INTERRUPTED}: it brings the switch to its end.", now)
    elif deployment.status == DeploymentStatus.DEPLOYING:
        where = "" if deployment.trigger in _BRINGING else " with the check-out"
        add_line(session, deployment.id, f"{_INTERRUPTED}: it begins again{where}.", now)
    else:
        add_line(session, deployment.id, f"{_INTERRUPTED}: it starts the release again.", now)
    await session.flush()


async def _turn_down(session: AsyncSession, deployment: Deployment, refusal: _Refusal, now: datetime) -> None:
    was = DeploymentStatus(deployment.status)
    add_line(session, deployment.id, refusal.reason, now)
    await session.flush()
    match refusal.to:
        case DeploymentStatus.AWAITING_APPROVAL:
            # What is frozen stays: the next approver is told what is not as it was asked for or approved.
            undecided = {
                "approved_digest": None,
                "needs_approval": True,
                "revision": revision_to_approve(deployment.revision, deployment.pushed_revision),
                "decided_by_id": None,
                "decided_at": None,
                "approved_revision": None,
                "approved_variables_id": None,
            }
            await move_deployment(session, deployment, refusal.to, now, **undecided)
        case DeploymentStatus.FAILED if was is DeploymentStatus.QUEUED:
            # What never began cannot fail in one move.
            await move_deployment(session, deployment, DeploymentStatus.DEPLOYING, now)
            await move_deployment(session, deployment, refusal.to, now)
        case _:
            await move_deployment(session, deployment, refusal.to, now)
    if refusal.to is DeploymentStatus.FAILED:
        own = select(Release).where(Release.deployment_id == deployment.id)
        release = (await session.execute(own)).scalar_one_or_none()
        if release is not None:
            release.removed_at = now
    await session.flush()
