"""Finds the deployments whose commit statuses are due. The deployments are the only record of what was reported."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, CompoundSelect, Select, select, text, union_all
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from control_domain.tables.deployments import IS_PUSHED, Deployment
from control_domain.tables.projects import Environment, Project
from control_domain.tables.repositories import Repository
from control_domain.tables.runtime import EnvironmentLease
from git_hosts.commit_statuses import CommitStatus, State
from pipeline_contracts.deploy_states import FINAL_STATUSES, DeploymentStatus

_MAX_REPORTS = 20
_MAX_AGE = timedelta(hours=24)
# `pending` is reported once for all these deployment statuses, so its description must fit each of them.
_PENDING: Final[tuple[State, str]] = ("pending", "is not finished")
_STATES: Final[Mapping[DeploymentStatus, tuple[State, str]]] = {
    DeploymentStatus.QUEUED: _PENDING,
    DeploymentStatus.AWAITING_APPROVAL: _PENDING,
    DeploymentStatus.DEPLOYING: _PENDING,
    DeploymentStatus.RUNNING: _PENDING,
    DeploymentStatus.SUCCEEDED: ("success", "has succeeded"),
    DeploymentStatus.FAILED: ("failure", "has failed"),
    DeploymentStatus.CANCELED: ("error", "was canceled"),
    DeploymentStatus.REJECTED: ("error", "was rejected"),
}


@dataclass(frozen=True, slots=True)
class Unreported:
    """A commit status that is due for a deployment."""

    deployment_id: int
    kind: str
    """The kind of the repository, which decides to which Git host the status goes."""
    reported: str | None
    """The state that was reported last."""
    has_context: bool
    """True if the context (the name of the status) is stored: the host has received a status with this context, or may
    have."""
    status: CommitStatus


async def find_unreported(session: AsyncSession, kinds: Collection[str], now: datetime) -> list[Unreported]:
    """Return up to 20 statuses that are due for repositories of these kinds, the oldest deployments first.

    If the start of a deployment was reported, its end is due. If nothing was reported within a day, nothing is due any
    more: a token that is set later causes no reports of old deployments.
    """
    return [_make_unreported(*row) for row in await session.execute(_select_unreported(kinds, now))]


def _select_unreported(kinds: Collection[str], now: datetime) -> Select[Any]:
    return (
        select(Deployment, Repository.kind, Repository.full_name)
        .add_columns(Project.slug, Environment.slug, EnvironmentLease.address)
        .join(Repository, Repository.id == Deployment.repository_id)
        .join(Project, Project.id == Deployment.project_id)
        .outerjoin(Environment, Environment.id == Deployment.environment_id)
        .outerjoin(EnvironmentLease, EnvironmentLease.environment_id == Deployment.environment_id)
        .where(
            Deployment.id.in_(_select_due(now)),
            ~_is_superseded(),
            Deployment.revision.is_not(None),
            # If the environment was removed, report only the end of a deployment whose start was reported, or may have
            # been: the response of the host may have been lost.
            Environment.id.is_not(None) | Deployment.reported_context.is_not(None),
            Repository.full_name.is_not(None),
            Repository.kind.in_(kinds),
        )
        .order_by(Deployment.id)
        .limit(_MAX_REPORTS)
    )


def _select_due(now: datetime) -> CompoundSelect[int]:
    """Select the deployments with a final status to report, and those with a start to report. After a final report or a
    refusal, nothing more is reported.

    Each of the two queries uses an index. For one query with OR, SQLite would read all deployments.
    """
    due = aliased(Deployment)
    pushed = select(due.id).where(text(IS_PUSHED))
    return union_all(
        pushed.where(due.reported == "pending", due.status.in_(FINAL_STATUSES)),
        pushed.where(due.reported.is_(None), due.created_at > now - _MAX_AGE),
    )


def _is_superseded() -> ColumnElement[bool]:
    """Return an SQL condition: the environment has a newer deployment of the same commit. The host shows only one
    status for both."""
    newer = aliased(Deployment)
    return (
        select(newer.id)
        .where(
            newer.environment_id == Deployment.environment_id,
            newer.id > Deployment.id,
            newer.repository_id == Deployment.repository_id,
            newer.revision == Deployment.revision,
            newer.trigger == Deployment.trigger,
        )
        .exists()
    )


def _make_unreported(
    deployment: Deployment,
    kind: str,
    full_name: str,
    project: str,
    environment: str | None,
    address: str | None,
) -> Unreported:
    state, outcome = _STATES[DeploymentStatus(deployment.status)]
    assert deployment.revision is not None
    status = CommitStatus(
        repository=full_name,
        revision=deployment.revision,
        state=state,
        # Use the stored context, even if a slug has changed since then, because the status of the end must replace that
        # of the start on the host.
        context=deployment.reported_context or f"pharos/{project}/{environment}",
        description=f"Deployment {deployment.id} {outcome}.",
        target_url=address if state == "success" else None,
    )
    has_context = deployment.reported_context is not None
    return Unreported(deployment.id, kind, deployment.reported, has_context, status)
