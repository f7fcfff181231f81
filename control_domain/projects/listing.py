"""Reads projects with their environments: two queries, however many there are."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import sees_all_projects
from control_domain.paging import Page
from control_domain.tables.projects import Environment, Project, ProjectRole


class ListedEnvironment(NamedTuple):
    """What is shown of an `Environment`: hundreds of objects of the session would cost twice as much."""

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
    """The account's projects in which the person may use Deploy, newest first: a page of them and whether more
    follow, or all."""
    query = select(Project).where(Project.account_id == caller.account.id).order_by(Project.id.desc())
    if not sees_all_projects(caller.role):
        own = select(ProjectRole.project_id).where(ProjectRole.person_id == caller.person.id)
        query = query.where(Project.id.in_(own))
    if page is not None:
        query = query.limit(page.limit + 1)
        if page.before is not None:
            query = query.where(Project.id < page.before)
    projects = (await session.execute(query)).scalars().all()
    shown = projects if page is None else projects[: page.limit]
    return await read_environments(session, shown), len(projects) > len(shown)


async def read_project(session: AsyncSession, project: Project) -> Listed:
    """A project with its environments."""
    return (await read_environments(session, [project]))[0]


async def read_environments(session: AsyncSession, projects: Sequence[Project]) -> Sequence[Listed]:
    """These projects with their environments, in the order in which deployments are promoted."""
    of: dict[int, list[ListedEnvironment]] = {project.id: [] for project in projects}
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
        .where(Environment.project_id.in_(of))
        .order_by(Environment.position, Environment.id)
    )
    for row in await session.execute(query):
        of[row[0]].append(ListedEnvironment(*row[1:]))
    return [(project, of[project.id]) for project in projects]
