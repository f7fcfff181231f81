"""Repositories as an operator handles them: connected to a project, listed, set to another branch, disconnected."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_api.audit.operations import operator, record
from control_api.deployments.tables import Deployment
from control_api.engines import Action, Engines, Wanted, read_id
from control_api.git_refs import read_branch
from control_api.projects.choose import choose_project
from control_api.projects.describe import name_project
from control_api.projects.tables import Project
from control_api.refusals import Refused
from control_api.repositories import operations
from control_api.repositories.read_url import read_url
from control_api.repositories.tables import Repository
from pipeline_contracts.deploy_states import ACTIVE
from pipeline_contracts.times import format_time


async def _list(engines: Engines, wanted: Wanted, now: datetime) -> Any:
    """Those that are connected, of all projects."""
    async with engines.sessions() as session:
        query = _connected().order_by(Repository.id)
        return [_describe(repository, project) for repository, project in await session.execute(query)]


async def _connect(engines: Engines, wanted: Wanted, now: datetime) -> Any:
    """`wanted`: url, kind (told from the host), branch (main), project_id (may be left out where there is one)."""
    url, told_kind = read_url(str(wanted.get("url") or ""))
    kind = wanted.get("kind") or told_kind or "git"
    if kind not in operations.KINDS:
        raise Refused(f"The kind is one of {', '.join(operations.KINDS)}.")
    branch = read_branch(wanted.get("branch") or "main")
    try:
        async with engines.sessions() as session, session.begin():
            project = await choose_project(session, wanted.get("project_id"))
            repository = await operations.connect_repository(session, project.id, kind, url, branch, now)
            details = {"project": project.public_id, "kind": kind, "url": url, "branch": branch}
            _record(session, wanted, repository, project, "repository.connect", now, details)
            await session.flush()
            return _describe(repository, project)
    except IntegrityError:
        raise Refused(await _told_connected(engines, wanted)) from None


async def _told_connected(engines: Engines, wanted: Wanted) -> str:
    async with engines.sessions() as session:
        project = await choose_project(session, wanted.get("project_id"))
        before = await operations.connected_repository(session, project.id)
    if before is None:
        return f"The project {project.slug} was changed by somebody else meanwhile; run the command again."
    return (
        f"The project {project.slug} is deployed from {before.url} already; disconnect that first with "
        f"`pharos repository disconnect {before.id}`."
    )


async def _set_branch(engines: Engines, wanted: Wanted, now: datetime) -> Any:
    """`wanted`: id, branch."""
    branch = read_branch(wanted.get("branch"))
    async with engines.sessions() as session, session.begin():
        repository, project = await _the_one(session, read_id(wanted, "id"))
        details = {"from": repository.branch, "to": branch}
        if repository.branch != branch:
            repository.branch = branch
            _record(session, wanted, repository, project, "repository.branch", now, details)
        await session.flush()
        return _describe(repository, project)


async def _disconnect(engines: Engines, wanted: Wanted, now: datetime) -> Any:
    """Refused while a deployment of the project is active. `wanted`: id."""
    async with engines.sessions() as session, session.begin():
        number = read_id(wanted, "id")
        await operations.lock_repository(session, number)
        repository, project = await _the_one(session, number)
        active = select(Deployment.id, Deployment.status).where(
            Deployment.project_id == project.id, Deployment.status.in_(ACTIVE)
        )
        found = (await session.execute(active.order_by(Deployment.id).limit(1))).one_or_none()
        if found is not None:
            raise Refused(
                f"Deployment {found[0]} of the project {project.slug} is {found[1]}: wait until it is finished, or end "
                f"it with `pharos cancel {found[0]}`."
            )
        await operations.disconnect_repository(session, repository, now)
        _record(session, wanted, repository, project, "repository.disconnect", now, {"url": repository.url})
        await session.flush()
        return {**_describe(repository, project), "disconnected": True}


def _connected() -> Any:
    return (
        select(Repository, Project)
        .join(Project, Project.id == Repository.project_id)
        .where(Repository.disconnected_at.is_(None))
    )


async def _the_one(session: AsyncSession, number: int) -> tuple[Repository, Project]:
    row = (await session.execute(_connected().where(Repository.id == number))).one_or_none()
    if row is None:
        raise Refused(f"No repository {number} is connected; `pharos repository list` shows those that are.")
    return row[0], row[1]


def _record(
    session: AsyncSession,
    wanted: Wanted,
    repository: Repository,
    project: Project,
    action: str,
    now: datetime,
    details: Mapping[str, Any],
) -> None:
    subject = f"repository {repository.id}"
    record(session, operator(wanted), project.account_id, action, subject, now, details)


def _describe(repository: Repository, project: Project) -> dict[str, Any]:
    return {
        "id": repository.id,
        "project": name_project(project),
        "kind": repository.kind,
        "url": repository.url,
        "branch": repository.branch,
        "connected_at": format_time(repository.created_at),
    }


ACTIONS: Mapping[str, Action] = {
    "repositories/list": _list,
    "repositories/connect": _connect,
    "repositories/set-branch": _set_branch,
    "repositories/disconnect": _disconnect,
}
