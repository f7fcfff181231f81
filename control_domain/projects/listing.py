"""Reads projects with their environments, in two queries for any number of projects."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import sees_all_projects
from control_domain.paging import Page
from control_domain.tables.projects import Environment, Project, ProjectRole


class ListedEnvironment(NamedTuple):
    """The listed columns of an `Environment`. ORM objects would take twice the time for hundreds of rows."""

    public_id: str
    name: str
    slug: str
    type: str
    desired_replicas: int
    state: str


Listed = tuple[Project, Sequence[ListedEnvironment]]


async def list_projects(
    session: AsyncSession, caller: Caller, page: Page | None
) -> tuple[Sequence[Listed], bool]:
    """Return the projects in which the caller may use Deploy, newest first, and True if more follow after the page.

    Returns all of them if `page` is None.
    """
    query = select(Project).where(Project.account_id == caller.account.id).order_by(Project.id.desc())
    if not sees_all_projects(caller.role):
        # Account scope: the projects are of the account.
        own = select(ProjectRole.project_id).where(ProjectRole.person_id == caller.person.id)
        query = query.where(Project.id.in_(own))
    if page is not None:
        query = query.limit(page.limit + 1)
        if page.before is not None:
            query = query.where(Project.id < page.before)
    projects = (await session.execute(query)).scalars().all()
    in_page = projects if page is None else projects[: page.limit]
    return await read_environments(session, in_page), len(projects) > len(in_page)


async def read_project(session: AsyncSession, project: Project) -> Listed:
    return (await read_environments(session, [project]))[0]


async def read_environments(session: AsyncSession, projects: Sequence[Project]) -> Sequence[Listed]:
    """Return the projects with their environments, in the order in which deployments are promoted."""
    environments: dict[int, list[ListedEnvironment]] = {project.id: [] for project in projects}
    query = (
        select(
            Environment.project_id,
            Environment.public_id,
            Environment.name,
            Environment.slug,
            Environment.type,
            Environment.desired_replicas,
            Environment.state,
        )
        .where(Environment.project_id.in_(environments))
        .order_by(Environment.position, Environment.id)
    )
    for row in await session.execute(query):
        environments[row[0]].append(ListedEnvironment(*row[1:]))
    return [(project, environments[project.id]) for project in projects]
