"""Deploys pushed branches to the environments whose triggers name them."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor
from control_domain.deployments.queue_deployment import DeploymentRequest, queue_deployment
from control_domain.projects.find import DeployTarget
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment
from control_domain.webhooks.outcome import Outcome, ignored, merge_outcomes
from control_domain.webhooks.targets import (
    Target,
    find_trigger_environment,
    find_triggers,
    is_rolled_back,
    raising_not_ready,
)
from control_domain.webhooks.waiting_pushes import (
    cancel_superseded,
    drop_waiting_pushes,
    drop_waiting_pushes_of_branch,
    store_waiting_push,
)
from control_domain.workflows.document import Triggers
from git_hosts.webhook_events import BranchChange, Push
from pipeline_contracts.deploy_states import ACTIVE_STATUSES, DeploymentStatus
from pipeline_contracts.errors import DeployRunning


async def process_push(
    session: AsyncSession, target: Target, push: Push, actor: Actor, now: datetime
) -> Outcome:
    """Queue deployments of all branches of the push, or store them as waiting.

    Raises `RepositoryNotReady` if one branch cannot be deployed; then the caller rolls all of them back.
    """
    # If the push names a branch several times, the last change counts.
    changes = {change.branch: change for change in push.changes}.values()
    outcomes = [
        await _ignore_deleted(session, target, change.branch) for change in changes if change.after is None
    ]
    updated = [change for change in changes if change.after is not None]
    if updated:
        triggers = await find_triggers(session, target.project)
        # Each push locks its environments in the same order: two pushes with several environments could deadlock.
        updated.sort(key=lambda change: triggers.push.get(change.branch, ""))
        outcomes += [
            await _process_change(session, target, triggers, push, change, actor, now) for change in updated
        ]
    return merge_outcomes(outcomes)


async def _ignore_deleted(session: AsyncSession, target: Target, branch: str) -> Outcome:
    """Drop the waiting pushes of a deleted branch, whatever state the project is in."""
    await drop_waiting_pushes_of_branch(session, target.repository.id, branch)
    return ignored(f"The branch {branch} was deleted.")


async def _process_change(
    session: AsyncSession,
    target: Target,
    triggers: Triggers,
    push: Push,
    change: BranchChange,
    actor: Actor,
    now: datetime,
) -> Outcome:
    branch = change.branch
    slug = triggers.push.get(branch)
    if slug is None:
        return ignored(f"No trigger of the workflow follows the branch {branch}.")
    deploy_target = await find_trigger_environment(session, target.project, slug, to_deploy=True)
    if is_skipped(triggers, change.message):
        return Outcome("skipped", reason=f"The head commit of {branch} has {triggers.skip}.")
    if await is_rolled_back(session, deploy_target.environment):
        return ignored(
            f"{slug} was rolled back: pushes deploy again once somebody deploys by hand or resumes the environment."
        )
    request = DeploymentRequest(
        "push",
        repository_id=target.repository.id,
        ref=branch,
        note=None if push.sender is None else f"pushed by {push.sender}",
        pushed_revision=change.after,
        pushed_from=change.before,
    )
    active = await _find_active(session, deploy_target.environment, request)
    if active is not None:
        return Outcome("queued", active.id, reason="A deployment of this commit is active.", is_accepted=True)
    try:
        deployment = await queue_push(session, deploy_target, request, actor, now)
    except DeployRunning:
        await store_waiting_push(session, deploy_target, request, branch, actor, now)
        return Outcome("waiting", reason=f"{slug} is being deployed to.", is_accepted=True)
    return Outcome("queued", deployment.id, is_accepted=True)


async def _find_active(
    session: AsyncSession, environment: Environment, request: DeploymentRequest
) -> Deployment | None:
    """Return the active deployment if it is of the same push and certain to build its commit.

    A host sends a push twice if both the repository and the host's application have a webhook. A waiting push keeps
    waiting, because it may be newer.
    """
    is_unresolved = Deployment.revision.is_(None) & (Deployment.status == DeploymentStatus.QUEUED)
    query = select(Deployment).where(
        Deployment.environment_id == environment.id,
        Deployment.status.in_(ACTIVE_STATUSES),
        Deployment.trigger == request.trigger,
        Deployment.repository_id == request.repository_id,
        Deployment.ref == request.ref,
        Deployment.pushed_revision == request.pushed_revision,
        is_unresolved | (Deployment.revision == request.pushed_revision),
    )
    return (await session.execute(query)).scalar_one_or_none()


def is_skipped(triggers: Triggers, message: str | None) -> bool:
    """Return True if a head commit with this message is not deployed."""
    return triggers.skip is not None and message is not None and triggers.skip in message


async def queue_push(
    session: AsyncSession,
    deploy_target: DeployTarget,
    request: DeploymentRequest,
    actor: Actor,
    now: datetime,
) -> Deployment:
    """Queue a deployment of a push. If it waits for approval, older waiting ones of the same branch are canceled.

    Raises `RepositoryNotReady` if the environment accepts no deploys now, and `DeployRunning`.
    """
    # Drop older waiting pushes before inserting the deployment, in the same order as the worker that queues waiting
    # pushes: otherwise the two could deadlock on Postgres. If this push is refused, the caller rolls both back.
    await drop_waiting_pushes(session, deploy_target.environment, request.ref)
    with raising_not_ready(deploy_target.environment):
        deployment = await queue_deployment(session, deploy_target, request, actor, now)
    await cancel_superseded(session, deployment, now)
    return deployment
