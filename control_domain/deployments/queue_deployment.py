"""Queues deploys, rollbacks and promotions as deployments for the deployer."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.database.statements import insert_if_absent
from control_domain.deployments.alerts import record_deployment_alerts
from control_domain.deployments.inputs import input_columns, read_current_inputs
from control_domain.deployments.transitions import add_log_line
from control_domain.environments.gates import check_accepts_deployments
from control_domain.environments.operations import lock_environment_row
from control_domain.projects.find import DeployTarget
from control_domain.repositories.operations import find_connected_repository
from control_domain.tables.deployments import Deployment
from pipeline_contracts.deploy_states import ACTIVE_STATUSES, DeploymentStatus
from pipeline_contracts.errors import DeployRunning, EnvironmentNotReady, FieldError, NotFound
from pipeline_contracts.git_refs import is_commit

Trigger = Literal["api", "push", "pull_request", "rollback", "promotion"]
_SHORT_COMMIT_LENGTH = 7


@dataclass(frozen=True, slots=True)
class DeploymentRequest:
    """A request to deploy to an environment: what to deploy, and why."""

    trigger: Trigger
    repository_id: int | None = None
    """The repository to build from; None: the project's connected repository."""
    ref: str | None = None
    revision: str | None = None
    promoted_from_id: int | None = None
    rolled_back_to_id: int | None = None
    note: str | None = None
    """The reason, or for a webhook the sender: `pushed by ada`."""
    commit_subject: str | None = None
    commit_author: str | None = None
    pushed_revision: str | None = None
    """The commit in the webhook, possibly abbreviated."""
    pushed_from: str | None = None


async def queue_deployment(
    session: AsyncSession, target: DeployTarget, request: DeploymentRequest, actor: Actor, now: datetime
) -> Deployment:
    """Queue a new deployment. If the environment requires approval, the deployment waits for it instead.

    A rollback needs no approval: it restores a former live release with its variables. Raises the errors of
    `check_accepts_deployments`, `EnvironmentNotReady` if the project has no repository, `DeployRunning`, and
    `NotFound` if the environment was removed meanwhile.
    """
    environment, project = target
    await check_accepts_deployments(session, environment, now)
    repository_id, branch = request.repository_id, environment.branch
    if repository_id is None:
        repository = await find_connected_repository(session, project.id)
        if repository is None:
            raise EnvironmentNotReady(
                "The project has no repository: connect one first.",
                errors=[FieldError("repository", "is not connected")],
            )
        repository_id, branch = repository.id, branch or repository.branch
    needs_approval = environment.deploys_need_approval and request.trigger != "rollback"
    if needs_approval:
        # Lock until the end of the transaction: a push cancels older deployments of its branch, and two concurrent
        # pushes would not see each other. Read the settings again: the gate may be off by now.
        await lock_environment_row(session, environment)
        needs_approval = environment.deploys_need_approval
    deployment = await _insert(session, target, repository_id, request, needs_approval, actor, now)
    details = {
        "environment": environment.public_id,
        "trigger": request.trigger,
        "ref": request.ref,
        "note": request.note,
    }
    record_audit_entry(
        session, actor, project.account_id, "deployment.queue", f"deployment {deployment.id}", now, details
    )
    add_log_line(
        session,
        deployment.id,
        f"Queued: {_describe_request(request, request.ref or branch or 'the branch')}.",
        now,
    )
    if needs_approval:
        add_log_line(session, deployment.id, "Waits for the approval of a second person.", now)
        await session.flush()
        await record_deployment_alerts(session, deployment, None, now)
    return deployment


def _describe_request(request: DeploymentRequest, ref: str) -> str:
    match request.trigger:
        case "push" | "pull_request":
            commit = (
                ""
                if request.pushed_revision is None
                else f" at {request.pushed_revision[:_SHORT_COMMIT_LENGTH]}"
            )
            return f"{ref}{commit}" if request.note is None else f"{ref}{commit}, {request.note}"
        case "rollback":
            return f"the release of deployment {request.rolled_back_to_id} again"
        case "promotion":
            return f"the release of deployment {request.promoted_from_id}"
    return ref


def choose_revision_to_approve(revision: str | None, pushed_revision: str | None) -> str | None:
    """Return the commit that the approver sees; None if the approver must name it."""
    if revision is None and pushed_revision is not None and is_commit(pushed_revision):
        return pushed_revision
    return revision


async def _insert(
    session: AsyncSession,
    target: DeployTarget,
    repository_id: int,
    request: DeploymentRequest,
    needs_approval: bool,
    actor: Actor,
    now: datetime,
) -> Deployment:
    """Insert the deployment. A unique index allows one active deployment per environment: for the others, raises
    `DeployRunning`. Raises `NotFound` if the environment was removed meanwhile."""
    revision = request.revision
    status = DeploymentStatus.QUEUED
    if needs_approval:
        # Insert with this status: as an active deployment it would lock an entry of the index of active deployments.
        # The approval of an older one waits for that entry, while this transaction waits to cancel the older one.
        status = DeploymentStatus.AWAITING_APPROVAL
        if await _find_active(session, target.environment.id) is not None:
            raise await deploy_running_error(session, target.environment.id)
        revision = choose_revision_to_approve(revision, request.pushed_revision)
    values = {
        "account_id": target.project.account_id,
        "project_id": target.project.id,
        "repository_id": repository_id,
        "environment_id": target.environment.id,
        "status": status.value,
        "trigger": request.trigger,
        "ref": request.ref,
        "revision": revision,
        "promoted_from_id": request.promoted_from_id,
        "rolled_back_to_id": request.rolled_back_to_id,
        "note": request.note,
        "commit_subject": request.commit_subject,
        "commit_author": request.commit_author,
        "asked_by_id": actor.person_id,
        "needs_approval": needs_approval,
        "created_at": now,
        "pushed_revision": request.pushed_revision,
        "pushed_from": request.pushed_from,
    }
    if needs_approval:
        inputs = await read_current_inputs(
            session, target, repository_id, revision, request.promoted_from_id or request.rolled_back_to_id
        )
        values |= input_columns(inputs, now)
    insert = insert_if_absent(session, Deployment, values).returning(Deployment)
    try:
        deployment: Deployment | None = (await session.execute(insert)).scalar_one_or_none()
    except IntegrityError:
        # Foreign key: the environment was removed since it was read.
        raise NotFound("The account has no such environment.") from None
    if deployment is None:
        raise await deploy_running_error(session, target.environment.id)
    return deployment


async def deploy_running_error(session: AsyncSession, environment_id: int) -> DeployRunning:
    """Return the error that names the environment's active deployment."""
    # None if the deployment has ended meanwhile. The error was correct when it was raised.
    number = await _find_active(session, environment_id)
    name = "A deployment" if number is None else f"Deployment {number}"
    return DeployRunning(
        f"{name} of this environment is not finished. Wait for it, then send the request again.",
        members={"active_deployment_id": number},
    )


async def _find_active(session: AsyncSession, environment_id: int) -> int | None:
    active = select(Deployment.id).where(
        Deployment.environment_id == environment_id, Deployment.status.in_(ACTIVE_STATUSES)
    )
    return (await session.execute(active)).scalar_one_or_none()
