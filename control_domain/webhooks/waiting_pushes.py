"""Pushes that wait until the active deployment ends: the newest of each branch."""

import logging
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, exists, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, read_actor, record_audit_entry, write_actor
from control_domain.database.statements import dialect_insert
from control_domain.deployments.queue_deployment import DeploymentRequest, Trigger, queue_deployment
from control_domain.deployments.transitions import add_log_line, transition_deployment
from control_domain.environments.gates import check_accepts_deployments
from control_domain.projects.find import DeployTarget
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment, Project
from control_domain.tables.repositories import Repository
from control_domain.tables.webhooks import WaitingPush
from control_domain.webhooks.targets import is_rolled_back
from pipeline_contracts.deploy_states import ACTIVE_STATUSES, DeploymentStatus
from pipeline_contracts.errors import InvalidInput, NotFound

logger = logging.getLogger(__name__)


async def store_waiting_push(
    session: AsyncSession,
    target: DeployTarget,
    request: DeploymentRequest,
    branch: str,
    actor: Actor,
    now: datetime,
) -> None:
    """Store this push until the environment has no active deployment. It replaces an older one of the branch."""
    values = {
        "environment_id": target.environment.id,
        "repository_id": request.repository_id,
        "branch": branch,
        "trigger": request.trigger,
        "pushed_revision": request.pushed_revision,
        "pushed_from": request.pushed_from,
        "note": request.note,
        **write_actor(actor),
        "created_at": now,
    }
    newest = dialect_insert(session, WaitingPush).values(values)
    await session.execute(
        newest.on_conflict_do_update(
            index_elements=[WaitingPush.environment_id, WaitingPush.branch],
            set_={name: newest.excluded[name] for name in values},
        )
    )


async def drop_waiting_pushes(
    session: AsyncSession, environment: Environment, branch: str | None = None
) -> None:
    """Delete the waiting pushes of the environment, or only that of one branch."""
    dropped = delete(WaitingPush).where(WaitingPush.environment_id == environment.id)
    if branch is not None:
        dropped = dropped.where(WaitingPush.branch == branch)
    await session.execute(dropped.execution_options(synchronize_session=False))


async def drop_waiting_pushes_of_branch(session: AsyncSession, repository_id: int, branch: str) -> None:
    """Delete the waiting pushes of this branch, for all environments."""
    waiting = select(WaitingPush.id).where(
        WaitingPush.repository_id == repository_id,
        WaitingPush.branch == branch,
        WaitingPush.trigger == "push",
    )
    # Skip locked pushes: another transaction is queuing or replacing them. Waiting for that transaction could deadlock,
    # as it locks the environment, which another change of this delivery may need.
    dropped = delete(WaitingPush).where(WaitingPush.id.in_(waiting.with_for_update(skip_locked=True)))
    await session.execute(dropped.execution_options(synchronize_session=False))


async def find_due_pushes(session: AsyncSession) -> Sequence[int]:
    """Return the IDs of the waiting pushes whose environment has no active deployment, the oldest first."""
    # Account scope: the worker polls the pushes of every account.
    active = exists().where(
        Deployment.environment_id == WaitingPush.environment_id, Deployment.status.in_(ACTIVE_STATUSES)
    )
    query = select(WaitingPush.id).where(~active).order_by(WaitingPush.id)
    return (await session.execute(query)).scalars().all()


async def queue_waiting_push(session: AsyncSession, number: int, now: datetime) -> Deployment | None:
    """Queue a deployment of this waiting push. Return None if it keeps waiting, or is dropped because the environment
    was rolled back or push deploys were turned off.

    Raises `DeployRunning` if another deployment was queued first: roll the transaction back, so that the push keeps
    waiting.
    """
    found = await _lock_push(session, number)
    if found is None:
        return None
    waiting, target, repository = found
    try:
        # Check before any write: an environment may be locked for days.
        await check_accepts_deployments(session, target.environment, now)
    except (InvalidInput, NotFound):
        return None
    if not await _claim_push(session, waiting):
        return None
    actor = read_actor(waiting)
    reason = await _find_obstacle(session, target, repository)
    if reason is not None:
        branch = waiting.branch
        details = {"environment": target.environment.public_id, "branch": branch, "reason": reason}
        subject = f"repository {repository.id}"
        record_audit_entry(session, actor, target.project.account_id, "push.give_up", subject, now, details)
        logger.info("dropped the waiting push of %s: %s", branch, reason)
        return None
    deployment = await queue_deployment(session, target, _wish(waiting), actor, now)
    await cancel_superseded(session, deployment, now)
    return deployment


def _wish(waiting: WaitingPush) -> DeploymentRequest:
    trigger: Trigger = waiting.trigger  # type: ignore[assignment]
    return DeploymentRequest(
        trigger,
        repository_id=waiting.repository_id,
        ref=waiting.branch,
        note=waiting.note,
        pushed_revision=waiting.pushed_revision,
        pushed_from=waiting.pushed_from,
    )


async def _lock_push(
    session: AsyncSession, number: int
) -> tuple[WaitingPush, DeployTarget, Repository] | None:
    """Return a waiting push, its environment and its repository. Locks the latter two against removal, and the
    environment against deployments of other pushes, until the end of the transaction."""
    # Account scope: the worker has found the push in its poll.
    # Lock both before the push, in the same order as webhooks: on Postgres a concurrent removal would deadlock.
    locked = select(Environment.id).join(WaitingPush, WaitingPush.environment_id == Environment.id)
    await session.execute(
        locked.where(WaitingPush.id == number).with_for_update(key_share=True, of=Environment)
    )
    row = (
        await session.execute(
            select(WaitingPush, Environment, Project, Repository)
            .join(Environment, Environment.id == WaitingPush.environment_id)
            .join(Project, Project.id == Environment.project_id)
            .join(Repository, Repository.id == WaitingPush.repository_id)
            .where(WaitingPush.id == number)
            .with_for_update(read=True, key_share=True, of=Repository)
        )
    ).one_or_none()
    return None if row is None else (row[0], DeployTarget(row[1], row[2]), row[3])


async def cancel_superseded(session: AsyncSession, newest: Deployment, now: datetime) -> None:
    """If `newest` waits for approval, cancel older deployments of the same branch that do: only the newest push of a
    branch matters."""
    if newest.status != DeploymentStatus.AWAITING_APPROVAL:
        return
    older = select(Deployment).where(
        Deployment.environment_id == newest.environment_id,
        Deployment.status == DeploymentStatus.AWAITING_APPROVAL,
        Deployment.trigger == newest.trigger,
        Deployment.ref == newest.ref,
        Deployment.id < newest.id,
    )
    # Lock in order of IDs: two concurrent pushes could deadlock.
    for deployment in (await session.execute(older.order_by(Deployment.id).with_for_update())).scalars():
        await transition_deployment(session, deployment, DeploymentStatus.CANCELED, now)
        add_log_line(session, deployment.id, f"Canceled: deployment {newest.id} is for a newer push.", now)


async def _claim_push(session: AsyncSession, waiting: WaitingPush) -> bool:
    """Delete the push and return True, unless a newer push replaced it or another control plane claimed it."""
    claimed = await session.execute(
        delete(WaitingPush)
        .where(WaitingPush.id == waiting.id, WaitingPush.created_at == waiting.created_at)
        .returning(WaitingPush.id)
        .execution_options(synchronize_session=False)
    )
    return claimed.first() is not None


async def _find_obstacle(session: AsyncSession, target: DeployTarget, repository: Repository) -> str | None:
    if await is_rolled_back(session, target.environment):
        return f"{target.environment.slug} was rolled back"
    if repository.disconnected_at is not None or not repository.push_deploys:
        return "push deploys were turned off"
    return None
