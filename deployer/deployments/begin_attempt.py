"""Begins an attempt at a deployment: checks whether the deployment may run, and where it resumes."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.engine import Sessions
from control_domain.deployments.inputs import (
    DeploymentInputs,
    describe_changes,
    input_columns,
    read_deployment_inputs,
)
from control_domain.deployments.queue_deployment import choose_revision_to_approve
from control_domain.deployments.transitions import add_log_line, transition_deployment
from control_domain.environments.gates import check_accepts_deployments
from control_domain.sealing import SealingKeys
from control_domain.tables.deployments import Deployment, Release
from control_domain.tables.projects import Environment
from control_domain.tables.repositories import Repository
from deployer.deployments.log import utc_now
from deployer.deployments.read_job import TRIGGERS_WITH_RELEASE, Job, NoJob, read_job
from deployer.deployments.record import explain_unusable, read_live_deployment
from deployer.leases import Lease, lock_lease
from deployer.shield import shielded
from pipeline_contracts.deploy_states import ACTIVE_STATUSES, DeploymentStatus, DeploymentStep
from pipeline_contracts.errors import Problem

_MAX_ATTEMPTS = 3
_INTERRUPTED = "The deployer was stopped during this deployment"


@shielded
async def begin_attempt(
    sessions: Sessions, lease: Lease, keys: SealingKeys, deployment_id: int
) -> Job | None:
    """Record another attempt at a deployment, and return its job.

    Return None if the deployment has ended, or if this function refuses it. A deployment whose live release cannot run
    here succeeds: see `explain_unusable`. Raises `LeaseLost`.
    """
    async with sessions() as session, session.begin():
        await lock_lease(session, lease, doing=f"deployment {deployment_id}")
        row = (
            await session.execute(
                select(Deployment, Environment, Repository)
                .join(Environment, Environment.id == Deployment.environment_id)
                .join(Repository, Repository.id == Deployment.repository_id)
                .where(Deployment.id == deployment_id, Deployment.status.in_(ACTIVE_STATUSES))
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
            # Only the row of the live release shows whether the switch has begun.
            step = DeploymentStep.SWITCH if is_live else DeploymentStep.START
        revision = deployment.approved_revision or deployment.revision
        inputs = await read_deployment_inputs(session, deployment, environment, revision)
        refusal = await _find_refusal(session, deployment, environment, repository, inputs, now)
        if refusal is None and not is_first:
            refusal = _refuse_resume(deployment, step)
        if refusal is None and not is_live and (is_first or deployment.frozen_at is None):
            refusal = _freeze_inputs(deployment, inputs, now)
        if refusal is None:
            try:
                job = await read_job(session, keys, deployment, environment, repository, step)
                await _count_attempt(session, deployment, step, now)
                return job
            except NoJob as error:
                refusal = _Refusal(DeploymentStatus.FAILED, str(error))
        if is_live:
            add_log_line(session, deployment.id, explain_unusable(refusal.reason), now)
            await session.flush()
            await transition_deployment(session, deployment, DeploymentStatus.SUCCEEDED, now)
            return None
        await _refuse(session, deployment, refusal, now)
        return None


@dataclass(frozen=True, slots=True)
class _Refusal:
    to: DeploymentStatus
    reason: str


async def _find_refusal(
    session: AsyncSession,
    deployment: Deployment,
    environment: Environment,
    repository: Repository,
    inputs: DeploymentInputs,
    now: datetime,
) -> _Refusal | None:
    """Return why a queued deployment may not begin, or None: the rules may have changed since it was requested."""
    if deployment.status != DeploymentStatus.QUEUED:
        return None
    try:
        await check_accepts_deployments(session, environment, now)
    except Problem as problem:
        return _Refusal(DeploymentStatus.CANCELED, f"Canceled: {problem.detail}")
    if repository.disconnected_at is not None and inputs.release_source_id is None:
        return _Refusal(DeploymentStatus.CANCELED, "Canceled: the repository was disconnected.")
    if deployment.trigger == "rollback":
        return None
    if not (deployment.needs_approval or environment.deploys_need_approval):
        return None
    if deployment.decided_by_id is None:
        return _Refusal(
            DeploymentStatus.AWAITING_APPROVAL,
            "The environment now requires an approval: the deployment waits for a second person to approve it.",
        )
    if deployment.approved_digest == inputs.digest():
        return None
    changed = describe_changes(deployment, inputs)
    why = (
        f"The {changed} changed after the approval" if changed else "The approval does not cover the workflow"
    )
    return _Refusal(DeploymentStatus.AWAITING_APPROVAL, f"{why}: the deployment waits for another one.")


def _freeze_inputs(deployment: Deployment, inputs: DeploymentInputs, now: datetime) -> _Refusal | None:
    """Store the inputs of the deployment for all later attempts. Refuse an approved deployment whose first attempt ran
    in an earlier version of Pharos, which did not store the inputs that were approved."""
    if deployment.status == DeploymentStatus.DEPLOYING and deployment.needs_approval:
        reason = "An earlier version of Pharos began this and did not keep which workflow was approved: deploy again."
        return _Refusal(DeploymentStatus.FAILED, reason)
    for column, value in input_columns(inputs, now).items():
        setattr(deployment, column, value)
    return None


def _refuse_resume(deployment: Deployment, step: DeploymentStep | None) -> _Refusal | None:
    """Return why an interrupted deployment must not resume at this step, or None if it may."""
    if step is DeploymentStep.RELEASE:
        return _Refusal(
            DeploymentStatus.FAILED,
            f"{_INTERRUPTED}: the release steps may have run in part and are not run twice. The former release stays "
            "live; look at what they did, then deploy again.",
        )
    if deployment.attempts >= _MAX_ATTEMPTS and step is not DeploymentStep.SWITCH:
        return _Refusal(
            DeploymentStatus.FAILED, f"{_INTERRUPTED}, for the {_MAX_ATTEMPTS}rd time: it is not tried again."
        )
    return None


async def _count_attempt(
    session: AsyncSession, deployment: Deployment, step: DeploymentStep | None, now: datetime
) -> None:
    deployment.attempts += 1
    if deployment.status == DeploymentStatus.QUEUED:
        await session.flush()
        await transition_deployment(session, deployment, DeploymentStatus.DEPLOYING, now)
    elif step is DeploymentStep.SWITCH:
        add_log_line(session, deployment.id, f"{_INTERRUPTED}: it completes the switch of the traffic.", now)
    elif deployment.status == DeploymentStatus.DEPLOYING:
        where = "" if deployment.trigger in TRIGGERS_WITH_RELEASE else " with the check-out"
        add_log_line(session, deployment.id, f"{_INTERRUPTED}: it begins again{where}.", now)
    else:
        add_log_line(session, deployment.id, f"{_INTERRUPTED}: it starts the release again.", now)
    await session.flush()


async def _refuse(session: AsyncSession, deployment: Deployment, refusal: _Refusal, now: datetime) -> None:
    was = DeploymentStatus(deployment.status)
    add_log_line(session, deployment.id, refusal.reason, now)
    await session.flush()
    match refusal.to:
        case DeploymentStatus.AWAITING_APPROVAL:
            # Keep the stored inputs: the next approver sees what changed since the request or the approval.
            undecided = {
                "approved_digest": None,
                "needs_approval": True,
                "revision": choose_revision_to_approve(deployment.revision, deployment.pushed_revision),
                "decided_by_id": None,
                "decided_at": None,
                "approved_revision": None,
                "approved_variables_id": None,
            }
            await transition_deployment(session, deployment, refusal.to, now, **undecided)
        case DeploymentStatus.FAILED if was is DeploymentStatus.QUEUED:
            # The state machine has no move from queued to failed.
            await transition_deployment(session, deployment, DeploymentStatus.DEPLOYING, now)
            await transition_deployment(session, deployment, refusal.to, now)
        case _:
            await transition_deployment(session, deployment, refusal.to, now)
    if refusal.to is DeploymentStatus.FAILED:
        own = select(Release).where(Release.deployment_id == deployment.id)
        release = (await session.execute(own)).scalar_one_or_none()
        if release is not None:
            release.removed_at = now
    await session.flush()
