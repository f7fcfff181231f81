"""What is done with repositories."""

from datetime import datetime

from sqlalchemy import select
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


async def disconnect_repository(session: AsyncSession, repository: Repository, now: datetime) -> None:
    """Deploy the project from it no more; its deployments stay."""
    repository.disconnected_at = now
    await session.flush()
