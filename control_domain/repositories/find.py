"""Finds and lists repositories for a caller: in the account of the caller, by number, with the required right."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import Right, sees_all_projects
from control_domain.database.public_ids import parse_number
from control_domain.paging import Page
from control_domain.projects.find import is_callers_role, require_right
from control_domain.repositories.operations import lock_repository
from control_domain.tables.projects import Project, ProjectRole
from control_domain.tables.repositories import Repository
from control_domain.tables.webhooks import SealedWebhookSecret
from pipeline_contracts.errors import Conflict, NotFound


class FoundRepository(NamedTuple):
    """A repository, its project, and how its webhook proves who sent a delivery."""

    repository: Repository
    project: Project
    secret_kind: str | None
    """None without a webhook."""


def _select_repositories() -> Any:
    # Account scope: each caller of this function adds the condition.
    return (
        select(Repository, Project, SealedWebhookSecret.kind)
        .join(Project, Project.id == Repository.project_id)
        .outerjoin(SealedWebhookSecret, SealedWebhookSecret.repository_id == Repository.id)
    )


async def find_repository(
    session: AsyncSession, caller: Caller, number: str, right: Right
) -> FoundRepository:
    """Return the repository with this number, also if it is disconnected.

    Raises `NotFound`, also for a repository of another account, and `DeployNotAllowed`.
    """
    query = (
        _select_repositories()
        .add_columns(ProjectRole.role)
        .outerjoin(ProjectRole, is_callers_role(caller))
        .where(Project.account_id == caller.account.id, Repository.id == parse_number(number))
    )
    row = (await session.execute(query)).one_or_none()
    if row is None:
        raise NotFound("The account has no such repository.")
    require_right(caller, row[3], right)
    return FoundRepository(row[0], row[1], row[2])


async def lock_connected(session: AsyncSession, found: FoundRepository) -> FoundRepository:
    """Return the repository freshly read, locked until the end of the transaction against changes and deployments.

    Raises `NotFound` if it was removed with its project, and `Conflict` if it is disconnected.
    """
    await lock_repository(session, found.repository.id)
    query = _select_repositories().where(
        Project.account_id == found.project.account_id, Repository.id == found.repository.id
    )
    row = (await session.execute(query.execution_options(populate_existing=True))).one_or_none()
    if row is None:
        raise NotFound("The account has no such repository.")
    locked = FoundRepository(*row)
    if locked.repository.disconnected_at is not None:
        raise Conflict(f"The repository is disconnected from the project {locked.project.slug}.")
    return locked


async def list_repositories(
    session: AsyncSession, caller: Caller, project: Project | None, page: Page
) -> tuple[Sequence[FoundRepository], bool]:
    """Return a page of the connected repositories of the projects that the caller may read, newest first, and whether
    more follow. With `project`, which the caller may read, only the one of this project."""
    query = _select_repositories().where(
        Project.account_id == caller.account.id, Repository.disconnected_at.is_(None)
    )
    if project is not None:
        query = query.where(Project.id == project.id)
    elif not sees_all_projects(caller.role):
        # Account scope: the projects are of the account.
        own = select(ProjectRole.project_id).where(ProjectRole.person_id == caller.person.id)
        query = query.where(Project.id.in_(own))
    if page.before is not None:
        query = query.where(Repository.id < page.before)
    query = query.order_by(Repository.id.desc()).limit(page.limit + 1)
    rows = [FoundRepository(*row) for row in await session.execute(query)]
    return rows[: page.limit], len(rows) > page.limit
