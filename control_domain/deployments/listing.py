"""Reads pages of deployments, newest first, of the projects that a person may see."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

from sqlalchemy import Integer, Select, bindparam, select, union_all
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import sees_all_projects
from control_domain.paging import Page
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment, Project, ProjectRole

# With at most so many projects, read each from its own index; with more, scan the index of the account.
_MAX_SEPARATE_PROJECTS = 100
# The largest value of the column.
_MAX_ID = 2**31 - 1


class ListedDeployment(NamedTuple):
    """The listed columns of a `Deployment`: a page of ORM objects would cost 50 % more."""

    id: int
    repository_id: int
    status: str
    trigger: str
    revision: str | None
    ref: str | None
    promoted_from_id: int | None
    created_at: datetime
    finished_at: datetime | None


Listed = tuple[ListedDeployment, str | None]
"""A deployment, and the public ID of its environment."""

_COLUMNS = (
    Deployment.id,
    Deployment.repository_id,
    Deployment.status,
    Deployment.trigger,
    Deployment.revision,
    Deployment.ref,
    Deployment.promoted_from_id,
    Deployment.created_at,
    Deployment.finished_at,
)


async def list_deployments(
    session: AsyncSession, caller: Caller, page: Page
) -> tuple[Sequence[Listed], bool]:
    """Return a page of deployments in projects that the person may see, newest first, and whether more follow."""
    projects = None if sees_all_projects(caller.role) else await _list_own_projects(session, caller)
    newest, values = _select_newest(caller, page, projects)
    query = (
        select(*_COLUMNS, Environment.public_id)
        .outerjoin(Environment, Environment.id == Deployment.environment_id)
        .where(Deployment.account_id == caller.account.id, Deployment.id.in_(newest))
        .order_by(Deployment.id.desc())
    )
    rows = [(ListedDeployment._make(row[:-1]), row[-1]) for row in await session.execute(query, values)]
    return rows[: page.limit], len(rows) > page.limit


async def _list_own_projects(session: AsyncSession, caller: Caller) -> Sequence[int]:
    query = (
        select(ProjectRole.project_id)
        .join(Project, Project.id == ProjectRole.project_id)
        .where(ProjectRole.person_id == caller.person.id, Project.account_id == caller.account.id)
    )
    return (await session.execute(query)).scalars().all()


def _select_newest(
    caller: Caller, page: Page, projects: Sequence[int] | None
) -> tuple[Select[int], Mapping[str, int]]:
    """Return a query for the IDs of a page and one more, and its parameters. `projects` None: all of the account."""
    limit, last = page.limit + 1, _MAX_ID if page.before is None else page.before - 1
    if projects and len(projects) <= _MAX_SEPARATE_PROJECTS:
        values = {f"project_{number}": project for number, project in enumerate(projects)}
        return _select_newest_of_each(len(projects)), {**values, "last": last, "limit": limit}
    newest = select(Deployment.id).where(Deployment.account_id == caller.account.id, Deployment.id <= last)
    if projects is not None:
        newest = newest.where(Deployment.project_id.in_(projects))
    return newest.order_by(Deployment.id.desc()).limit(limit), {}


@lru_cache(maxsize=_MAX_SEPARATE_PROJECTS)
def _select_newest_of_each(projects: int) -> Select[int]:
    """Select the newest `limit` deployments of this number of projects, up to the ID `last`.

    Each project needs its own LIMIT: for `project_id IN (…)` both databases would sort all deployments instead of
    reading an index. Cached, because building the query takes longer than running it.
    """
    limit = bindparam("limit", type_=Integer)
    each = [
        select(
            select(Deployment.id)
            .where(
                Deployment.project_id == bindparam(f"project_{number}"), Deployment.id <= bindparam("last")
            )
            .order_by(Deployment.id.desc())
            .limit(limit)
            .subquery()
            .c.id
        )
        for number in range(projects)
    ]
    newest = union_all(*each).subquery()
    return select(newest.c.id).order_by(newest.c.id.desc()).limit(limit)
