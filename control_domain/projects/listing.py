"""Reads projects with their environments, in two queries for any number of projects."""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Integer, Select, bindparam, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import sees_all_projects
from control_domain.database.public_ids import MAX_NUMBER
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
_ENVIRONMENTS_OF_PROJECTS = (
    select(
        _ENVIRONMENTS.project_id,
        _ENVIRONMENTS.public_id,
        _ENVIRONMENTS.name,
        _ENVIRONMENTS.slug,
        _ENVIRONMENTS.type,
        _ENVIRONMENTS.desired_replicas,
        _ENVIRONMENTS.state,
    )
    .where(_ENVIRONMENTS.project_id.in_(bindparam("projects", expanding=True)))
    .order_by(_ENVIRONMENTS.position, _ENVIRONMENTS.id)
)


@cache
def _select_projects(*, are_own: bool, is_page: bool) -> Select[*tuple[Any, ...]]:
    """Return the query for projects of `account`: the `limit` newest ones before an ID, only those in which `person`
    has a role.

    Cached, because building a query takes as long as running it.
    """
    query = _ALL_PROJECTS.where(_PROJECTS.account_id == bindparam("account")).order_by(_PROJECTS.id.desc())
    if are_own:
        # Account scope: roles in other accounts do not add projects of this account.
        own = select(_ROLES.project_id).where(_ROLES.person_id == bindparam("person"))
        query = query.where(_PROJECTS.id.in_(own))
    if is_page:
        query = query.where(_PROJECTS.id < bindparam("before")).limit(bindparam("limit", type_=Integer))
    return query


async def list_projects(
    session: AsyncSession, caller: Caller, page: Page | None
) -> tuple[Sequence[Listed[ListedProject]], bool]:
    """Return the projects in which the caller may use Deploy, newest first, and True if more follow after the page.

    Returns all of them if `page` is None.
    """
    are_own = not sees_all_projects(caller.role)
    values = {"account": caller.account.id}
    if are_own:
        values["person"] = caller.person.id
    if page is not None:
        values |= {"limit": page.limit + 1, "before": MAX_NUMBER if page.before is None else page.before}
    query = _select_projects(are_own=are_own, is_page=page is not None)
    projects = [ListedProject._make(row) for row in await session.execute(query, values)]
    in_page = projects if page is None else projects[: page.limit]
    return await read_environments(session, in_page), len(projects) > len(in_page)


async def read_project(session: AsyncSession, project: Project) -> Listed[Project]:
    return (await read_environments(session, [project]))[0]


async def read_environments(
    session: AsyncSession, projects: Sequence[AnyProject]
) -> Sequence[Listed[AnyProject]]:
    """Return the projects with their environments, in the order in which deployments are promoted."""
    environments: dict[int, list[ListedEnvironment]] = {project.id: [] for project in projects}
    for row in await session.execute(_ENVIRONMENTS_OF_PROJECTS, {"projects": list(environments)}):
        environments[row[0]].append(ListedEnvironment._make(row[1:]))
    return [(project, environments[project.id]) for project in projects]
