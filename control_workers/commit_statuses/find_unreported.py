"""What Git hosts are to be told, found in the deployments themselves: nothing of it is kept anywhere else."""

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
from pipeline_contracts.deploy_states import FINAL, DeploymentStatus

_AT_ONCE = 20
_BEGUN_WITHIN = timedelta(hours=24)
# `pending` is told once, however many statuses it stands for: so its words fit them all.
_NOT_FINISHED: Final[tuple[State, str]] = ("pending", "is not finished")
_WANTED: Final[Mapping[DeploymentStatus, tuple[State, str]]] = {
    DeploymentStatus.QUEUED: _NOT_FINISHED,
    DeploymentStatus.AWAITING_APPROVAL: _NOT_FINISHED,
    DeploymentStatus.DEPLOYING: _NOT_FINISHED,
    DeploymentStatus.RUNNING: _NOT_FINISHED,
    DeploymentStatus.SUCCEEDED: ("success", "has succeeded"),
    DeploymentStatus.FAILED: ("failure", "has failed"),
    DeploymentStatus.CANCELED: ("error", "was canceled"),
    DeploymentStatus.REJECTED: ("error", "was rejected"),
}


@dataclass(frozen=True, slots=True)
class Unreported:
    """What a host is to be told of a deployment."""

    deployment_id: int
    kind: str
    """Of the repository: which host."""
    reported: str | None
    """What it was told last."""
    has_context: bool
    """True if the context of its status is stored: the host has received a status under it, or may have."""
    status: CommitStatus


async def find_unreported(session: AsyncSession, kinds: Collection[str], now: datetime) -> list[Unreported]:
    """Of repositories of these kinds, the oldest deployments first, 20 at most.

    Whatever a host was told the beginning of, it is told the end of. What it was told nothing of is left after a day:
    of a token that is set later it hears no old stories.
    """
    return [_read(*row) for row in await session.execute(_unreported(kinds, now))]


def _unreported(kinds: Collection[str], now: datetime) -> Select[Any]:
    return (
        select(Deployment, Repository.kind, Repository.full_name)
        .add_columns(Project.slug, Environment.slug, EnvironmentLease.address)
        .join(Repository, Repository.id == Deployment.repository_id)
        .join(Project, Project.id == Deployment.project_id)
        .outerjoin(Environment, Environment.id == Deployment.environment_id)
        .outerjoin(EnvironmentLease, EnvironmentLease.environment_id == Deployment.environment_id)
        .where(
            Deployment.id.in_(_to_tell(now)),
            ~_is_superseded(),
            Deployment.revision.is_not(None),
            # For a removed environment, report only the end of deployments whose start was reported, or may have been:
            # the host's answer can be lost.
            Environment.id.is_not(None) | Deployment.reported_context.is_not(None),
            Repository.full_name.is_not(None),
            Repository.kind.in_(kinds),
        )
        .order_by(Deployment.id)
        .limit(_AT_ONCE)
    )


def _to_tell(now: datetime) -> CompoundSelect[int]:
    """What is final stays so: behind that, and behind a refusal, there is nothing to tell.

    Two queries that an index answers each: of both in one, SQLite would read all deployments there ever were.
    """
    one = aliased(Deployment)
    pushed = select(one.id).where(text(IS_PUSHED))
    return union_all(
        pushed.where(one.reported == "pending", one.status.in_(FINAL)),
        pushed.where(one.reported.is_(None), one.created_at > now - _BEGUN_WITHIN),
    )


def _is_superseded() -> ColumnElement[bool]:
    """Whether a newer one has brought the same commit there, or is to: the host has one place for both."""
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


def _read(
    deployment: Deployment,
    kind: str,
    full_name: str,
    project: str,
    environment: str | None,
    address: str | None,
) -> Unreported:
    state, words = _WANTED[DeploymentStatus(deployment.status)]
    assert deployment.revision is not None
    status = CommitStatus(
        repository=full_name,
        revision=deployment.revision,
        state=state,
        # As it was told before, though a slug may have changed since: the end takes the place of the beginning.
        context=deployment.reported_context or f"pharos/{project}/{environment}",
        description=f"Deployment {deployment.id} {words}.",
        target_url=address if state == "success" else None,
    )
    has_context = deployment.reported_context is not None
    return Unreported(deployment.id, kind, deployment.reported, has_context, status)
