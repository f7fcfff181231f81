"""What is done with repositories."""

from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_api.repositories.tables import Repository

KINDS = ("github", "gitlab", "bitbucket", "git")


async def connected_repository(session: AsyncSession, project_id: int) -> Repository | None:
    """The project's repository now."""
    query = select(Repository).where(
        Repository.project_id == project_id, Repository.disconnected_at.is_(None)
    )
    return (await session.execute(query)).scalar_one_or_none()


async def connect_repository(
    session: AsyncSession, project_id: int, kind: str, url: str, branch: str, now: datetime
) -> Repository:
    """Deploy the project from this repository. Raises `IntegrityError` where it has one already."""
    repository = Repository(project_id=project_id, kind=kind, url=url, branch=branch, created_at=now)
    session.add(repository)
    await session.flush()
    return repository


async def lock_repository(session: AsyncSession, number: int) -> None:
    """Let nobody else change the repository, nor queue a deployment from it, until the end of the transaction.

    On Postgres a deployment that is being queued holds the row that it refers to. SQLite locks nothing when it reads,
    hence an update; it lets one transaction write at a time.
    """
    mine = Repository.id == number
    await session.execute(select(Repository.id).where(mine).with_for_update())
    await session.execute(update(Repository).where(mine).values(kind=Repository.kind))


async def disconnect_repository(session: AsyncSession, repository: Repository, now: datetime) -> None:
    """Deploy the project from it no more; its deployments stay."""
    repository.disconnected_at = now
    await session.flush()
