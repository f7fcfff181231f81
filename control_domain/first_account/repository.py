"""The sample repository of a first start, with its webhook secret."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.engine import Sessions
from control_domain.repositories.webhook_secrets import make_secret, set_secret
from control_domain.sealing import SealingKeys
from control_domain.tables.projects import Project
from control_domain.tables.repositories import Repository

BRANCH = "main"
_KIND = "github"
_FIELDS = ("id", "kind", "secret")


async def ensure_first_repository(
    sessions: Sessions,
    keys: SealingKeys,
    present: Mapping[str, Any],
    make: Callable[[], Awaitable[str | None]],
    now: datetime,
) -> dict[str, Any]:
    """Return the credentials `repository` if `present` lacks them: `{"id": 1, "kind": "github", "secret": "…"}`.

    Connects a repository only to a project that never had one. `make` creates its files and returns their URL, or None
    if it cannot; then nothing is connected. A connected sample whose secret is not in `present` gets a new secret.
    """
    # Account scope: the project is the one of the credentials file.
    known = present.get("repository")
    if isinstance(known, dict) and all(member in known for member in _FIELDS):
        return {}
    async with sessions() as session, session.begin():
        by_id = select(Project.id).where(Project.public_id == present["project_id"])
        project_id = (await session.execute(by_id)).scalar_one_or_none()
        # None: the project was removed.
        if project_id is None:
            return {}
        any_repository = select(Repository.id).where(Repository.project_id == project_id).limit(1)
        is_first = (await session.execute(any_repository)).first() is None
    # Outside of a transaction, because it is slow.
    url = await make() if is_first else None
    async with sessions() as session, session.begin():
        repository = await _connected_sample(session, project_id)
        if repository is None:
            if url is None:
                return {}
            repository = await _connect_sample(session, project_id, url, now)
        secret = make_secret(repository.kind)
        await set_secret(session, keys, repository, secret, now)
        return {"repository": {"id": repository.id, "kind": repository.kind, "secret": secret.value}}


async def _connected_sample(session: AsyncSession, project_id: int) -> Repository | None:
    query = select(Repository).where(
        Repository.project_id == project_id, Repository.is_sample, Repository.disconnected_at.is_(None)
    )
    return (await session.execute(query)).scalar_one_or_none()


async def _connect_sample(session: AsyncSession, project_id: int, url: str, now: datetime) -> Repository:
    # A kind with webhooks: the URL of a local folder would give a kind without them.
    repository = Repository(
        project_id=project_id, kind=_KIND, url=url, branch=BRANCH, is_sample=True, created_at=now
    )
    session.add(repository)
    await session.flush()
    return repository
