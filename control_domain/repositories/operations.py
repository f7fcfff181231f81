"""What is done with repositories."""

from datetime import datetime

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.repositories.read_url import full_name
from control_domain.tables.repositories import Repository
from control_domain.tables.webhooks import SealedWebhookSecret, WaitingPush
from git_hosts.all_hosts import HOSTS

KINDS = (*HOSTS, "git")


def choose_ref(requested: str | None, of_environment: str | None, of_repository: str) -> str:
    """Return the ref that a deployment builds: the requested one, else the branch of its environment, else that of its
    repository."""
    return requested or of_environment or of_repository


async def connected_repository(session: AsyncSession, project_id: int) -> Repository | None:
    """The project's repository now."""
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
    """Deploy the project from this repository. Raises `IntegrityError` where it has one already."""
    repository = Repository(
        project_id=project_id, kind=kind, url=url, branch=branch, full_name=full_name(url), created_at=now
    )
    session.add(repository)
    await session.flush()
    return repository


async def lock_repository(session: AsyncSession, number: int) -> None:
    """Let nobody else change the repository, nor queue a deployment from it, until the end of the transaction.

    On Postgres a deployment that is being queued holds the row that it refers to. SQLite locks nothing when it reads,
    hence an update; it lets one transaction write at a time.
    """
    # Account scope: callers find the repository in its account after they have locked it.
    mine = Repository.id == number
    await session.execute(select(Repository.id).where(mine).with_for_update())
    await session.execute(update(Repository).where(mine).values(kind=Repository.kind))


async def disconnect_repository(session: AsyncSession, repository: Repository, now: datetime) -> None:
    """Deploy the project from it no more, and listen to its webhooks no more; its deployments stay, and what its
    webhooks were answered. Call `lock_repository` before."""
    repository.disconnected_at = now
    await session.flush()
    # Whoever is about to queue a push has locked its row, and waits for the repository's: to wait for that one here
    # would be crosswise. It finds the repository disconnected.
    waiting = select(WaitingPush.id).where(WaitingPush.repository_id == repository.id)
    for gone in (
        delete(WaitingPush).where(WaitingPush.id.in_(waiting.with_for_update(skip_locked=True))),
        delete(SealedWebhookSecret).where(SealedWebhookSecret.repository_id == repository.id),
    ):
        await session.execute(gone.execution_options(synchronize_session=False))
