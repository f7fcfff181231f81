"""Connects, finds and disconnects repositories."""

from datetime import datetime

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.repositories.urls import parse_full_name
from control_domain.tables.repositories import Repository
from control_domain.tables.webhooks import SealedWebhookSecret, WaitingPush
from git_hosts.all_hosts import HOSTS

KINDS = (*HOSTS, "git")


def choose_ref(requested: str | None, of_environment: str | None, of_repository: str) -> str:
    """Return the ref that a deployment builds: the requested ref, else the branch of its environment, else the branch
    of its repository."""
    return requested or of_environment or of_repository


async def find_connected_repository(session: AsyncSession, project_id: int) -> Repository | None:
    """Return the connected repository of the project, or None."""
    query = select(Repository).where(
        Repository.project_id == project_id, Repository.disconnected_at.is_(None)
    )
    return (await session.execute(query)).scalar_one_or_none()


async def is_disconnected(session: AsyncSession, number: int) -> bool:
    """True if the repository is disconnected, so that deployers no longer check it out. Releases that were built from
    it can still be rolled back to and promoted."""
    # Account scope: the deployer builds releases of every account.
    query = select(Repository.disconnected_at).where(Repository.id == number)
    return (await session.execute(query)).scalar_one_or_none() is not None


async def connect_repository(
    session: AsyncSession, project_id: int, kind: str, url: str, branch: str, now: datetime
) -> Repository:
    """Connect the repository to the project. Raises `IntegrityError` if the project has one already."""
    repository = Repository(
        project_id=project_id,
        kind=kind,
        url=url,
        branch=branch,
        full_name=parse_full_name(url),
        created_at=now,
    )
    session.add(repository)
    await session.flush()
    return repository


async def lock_repository(session: AsyncSession, number: int) -> None:
    """Lock the repository until the end of the transaction, against changes and new deployments from it.

    On Postgres, queuing a deployment locks the row that it refers to. SQLite takes no lock on reads, hence the update.
    """
    # Account scope: callers find the repository in its account after they have locked it.
    mine = Repository.id == number
    await session.execute(select(Repository.id).where(mine).with_for_update())
    await session.execute(update(Repository).where(mine).values(kind=Repository.kind))


async def disconnect_repository(session: AsyncSession, repository: Repository, now: datetime) -> None:
    """Stop deployments from the repository and its webhooks. Its deployments and deliveries stay. Call
    `lock_repository` first."""
    repository.disconnected_at = now
    await session.flush()
    # Skip locked pushes: a transaction that queues a push has locked the push and waits for the repository, so waiting
    # for the push here would deadlock. That transaction then finds the repository disconnected.
    waiting = select(WaitingPush.id).where(WaitingPush.repository_id == repository.id)
    for statement in (
        delete(WaitingPush).where(WaitingPush.id.in_(waiting.with_for_update(skip_locked=True))),
        delete(SealedWebhookSecret).where(SealedWebhookSecret.repository_id == repository.id),
    ):
        await session.execute(statement.execution_options(synchronize_session=False))
