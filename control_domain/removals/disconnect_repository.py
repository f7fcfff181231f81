"""Disconnects repositories from their projects."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.deployments.transitions import add_log_line, transition_deployment
from control_domain.removals.end_incidents import end_repository_incidents
from control_domain.repositories.operations import (
    disconnect_repository,
    find_connected_repository,
    lock_repository,
)
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Project
from control_domain.tables.repositories import Repository
from pipeline_contracts.deploy_states import ACTIVE_STATUSES, DeploymentStatus
from pipeline_contracts.errors import Conflict


async def disconnect_and_cancel(
    session: AsyncSession, project: Project, repository: Repository, actor: Actor, now: datetime
) -> int:
    """Disconnect the locked repository and cancel its deployments that wait for approval. Return their number.

    Raises `Conflict` while a deployment of the project is active.
    """
    # Before the check for active deployments: an approval in progress has then ended, and its deployment is active.
    canceled = await _cancel_waiting(session, repository, now)
    active = select(Deployment.id, Deployment.status).where(
        Deployment.project_id == project.id, Deployment.status.in_(ACTIVE_STATUSES)
    )
    found = (await session.execute(active.order_by(Deployment.id).limit(1))).one_or_none()
    if found is not None:
        raise Conflict(
            f"Deployment {found[0]} of the project {project.slug} is {found[1]}: wait until it is finished, or cancel "
            "it."
        )
    await disconnect_repository(session, repository, now)
    await end_repository_incidents(session, project, now)
    subject, details = f"repository {repository.id}", {"url": repository.url, "canceled": canceled}
    record_audit_entry(session, actor, project.account_id, "repository.disconnect", subject, now, details)
    await session.flush()
    return canceled


async def disconnect_sample(session: AsyncSession, project: Project, actor: Actor, now: datetime) -> None:
    """Disconnect the sample of a first start, so that another repository can be connected. Other repositories stay.

    Raises `Conflict` while a deployment of the project is active.
    """
    sample = await find_connected_repository(session, project.id)
    if sample is None or not sample.is_sample:
        return
    await lock_repository(session, sample.id)
    # Read again: another request may have disconnected it before the lock.
    sample = await find_connected_repository(session, project.id)
    if sample is not None and sample.is_sample:
        await disconnect_and_cancel(session, project, sample, actor, now)


async def _cancel_waiting(session: AsyncSession, repository: Repository, now: datetime) -> int:
    """Cancel the deployments that wait for approval and would check out the repository. Return their number."""
    query = (
        select(Deployment)
        .where(
            Deployment.repository_id == repository.id,
            Deployment.status == DeploymentStatus.AWAITING_APPROVAL,
            Deployment.promoted_from_id.is_(None),
        )
        .order_by(Deployment.id)
        .with_for_update()
    )
    waiting = (await session.execute(query)).scalars().all()
    for deployment in waiting:
        await transition_deployment(session, deployment, DeploymentStatus.CANCELED, now)
        add_log_line(session, deployment.id, "Canceled: the repository was disconnected.", now)
    return len(waiting)
