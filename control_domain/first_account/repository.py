"""The repository of a first start, so that there is something to deploy and something to sign webhooks for."""

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
_MEMBERS = ("id", "kind", "secret")


async def ensure_first_repository(
    sessions: Sessions,
    keys: SealingKeys,
    present: Mapping[str, Any],
    make: Callable[[], Awaitable[str | None]],
    now: datetime,
) -> dict[str, Any]:
    """`repository` where `present`, the credentials so far, lacks it: `{"id": 1, "kind": "github", "secret": "…"}`.

    Only a project that has never had a repository gets one. `make` brings its files about and gives their address,
    None where there can be none; then nothing is made. One that is connected without its secret being known gets a
    new secret. What `make` raises passes through.
    """
    # Account scope: the project is the one of the credentials file.
    known = present.get("repository")
    if isinstance(known, dict) and all(member in known for member in _MEMBERS):
        return {}
    async with sessions() as session, session.begin():
        of_id = select(Project.id).where(Project.public_id == present["project_id"])
        project_id = (await session.execute(of_id)).scalar_one_or_none()
        # None: the project was removed.
        if project_id is None:
            return {}
        any_of_it = select(Repository.id).where(Repository.project_id == project_id).limit(1)
        is_first = (await session.execute(any_of_it)).first() is None
    # Between transactions: it takes its time.
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
    # Of a kind that has webhooks: of its address alone it would be of none.
    repository = Repository(
        project_id=project_id, kind=_KIND, url=url, branch=BRANCH, is_sample=True, created_at=now
    )
    session.add(repository)
    await session.flush()
    return repository
