"""Reads projects with their environments, in two queries for any number of projects."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import sees_all_projects
from control_domain.paging import Page
from control_domain.tables.projects import Environment, Project, ProjectRole


class ListedProject(NamedTuple):
    """The listed columns of a `Project`."""

    id: int
    public_id: str
    name: str
    slug: str


class ListedEnvironment(NamedTuple):
    """The listed columns of an `Environment`."""

    public_id: str
    name: str
    slug: str
    type: str
    desired_replicas: int
    state: str


AnyProject = TypeVar("AnyProject", Project, ListedProject)
Listed = tuple[AnyProject, Sequence[ListedEnvironment]]

# Columns of the tables themselves: the ORM would take twice the time for hundreds of rows.
_PROJECTS = Project.__table__.c
_ENVIRONMENTS = Environment.__table__.c
_ROLES = ProjectRole.__table__.c
_ALL_PROJECTS = select(_PROJECTS.id, _PROJECTS.public_id, _PROJECTS.name, _PROJECTS.slug)
_ALL_ENVIRONMENTS = select(
    _ENVIRONMENTS.project_id,
    _ENVIRONMENTS.public_id,
    _ENVIRONMENTS.name,
    _ENVIRONMENTS.slug,
    _ENVIRONMENTS.type,
    _ENVIRONMENTS.desired_replicas,
    _ENVIRONMENTS.state,
).order_by(_ENVIRONMENTS.position, _ENVIRONMENTS.id)


async def list_projects(
    session: AsyncSession, caller: Caller, page: Page | None
) -> tuple[Sequence[Listed[ListedProject]], bool]:
    """Return the projects in which the caller may use Deploy, newest first, and True if more follow after the page.

    Returns all of them if `page` is None.
    """
    query = _ALL_PROJECTS.where(_PROJECTS.account_id == caller.account.id).order_by(_PROJECTS.id.desc())
    if not sees_all_projects(caller.role):
        own = select(_ROLES.project_id).where(_ROLES.person_id == caller.person.id)
        query = query.where(_PROJECTS.id.in_(own))
    if page is not None:
        query = query.limit(page.limit + 1)
        if page.before is not None:
            query = query.where(_PROJECTS.id < page.before)
    projects = [ListedProject._make(row) for row in await session.execute(query)]
    in_page = projects if page is None else projects[: page.limit]
    return await read_environments(session, in_page), len(projects) > len(in_page)


async def read_project(session: AsyncSession, project: Project) -> Listed[Project]:
    return (await read_environments(session, [project]))[0]


async def read_environments(
    session: AsyncSession, projects: Sequence[AnyProject]
) -> Sequence[Listed[AnyProject]]:
    """Return the projects with their environments, in the order in which deployments are promoted."""
    environments: dict[int, list[ListedEnvironment]] = {project.id: [] for project in projects}
    query = _ALL_ENVIRONMENTS.where(_ENVIRONMENTS.project_id.in_(environments))
    for project_id, *columns in await session.execute(query):
        environments[project_id].append(ListedEnvironment._make(columns))
    return [(project, environments[project.id]) for project in projects]
