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

# A page is read from each project's index on its own; more of them than this are looked for in the account's.
_MOST_SEPARATE = 100
# What the column holds.
_GREATEST = 2**31 - 1


class ListedDeployment(NamedTuple):
    """What is shown of a `Deployment`: a page of objects of the session would cost half as much again."""

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
    """A page of those in projects that the person may see, newest first, and whether more follow."""
    projects = None if sees_all_projects(caller.role) else await _own_projects(session, caller)
    newest, values = _newest(caller, page, projects)
    query = (
        select(*_COLUMNS, Environment.public_id)
        .outerjoin(Environment, Environment.id == Deployment.environment_id)
        .where(Deployment.account_id == caller.account.id, Deployment.id.in_(newest))
        .order_by(Deployment.id.desc())
    )
    rows = [(ListedDeployment._make(row[:-1]), row[-1]) for row in await session.execute(query, values)]
    return rows[: page.limit], len(rows) > page.limit


async def _own_projects(session: AsyncSession, caller: Caller) -> Sequence[int]:
    query = (
        select(ProjectRole.project_id)
        .join(Project, Project.id == ProjectRole.project_id)
        .where(ProjectRole.person_id == caller.person.id, Project.account_id == caller.account.id)
    )
    return (await session.execute(query)).scalars().all()


def _newest(
    caller: Caller, page: Page, projects: Sequence[int] | None
) -> tuple[Select[int], Mapping[str, int]]:
    """The IDs of a page and of one more, and the values that the query needs. `projects` None: all of the account."""
    most, last = page.limit + 1, _GREATEST if page.before is None else page.before - 1
    if projects and len(projects) <= _MOST_SEPARATE:
        values = {f"project_{number}": project for number, project in enumerate(projects)}
        return _newest_of_each(len(projects)), {**values, "last": last, "most": most}
    newest = select(Deployment.id).where(Deployment.account_id == caller.account.id, Deployment.id <= last)
    if projects is not None:
        newest = newest.where(Deployment.project_id.in_(projects))
    return newest.order_by(Deployment.id.desc()).limit(most), {}


@lru_cache(maxsize=_MOST_SEPARATE)
def _newest_of_each(projects: int) -> Select[int]:
    """The newest `most` of so many projects, up to the ID `last`.

    Neither database reads the newest of several projects from an index by itself, and Postgres does so only where each
    has its own limit: they would sort all there are. To build the query takes longer than to run it, so it is kept.
    """
    most = bindparam("most", type_=Integer)
    each = [
        select(
            select(Deployment.id)
            .where(
                Deployment.project_id == bindparam(f"project_{number}"), Deployment.id <= bindparam("last")
            )
            .order_by(Deployment.id.desc())
            .limit(most)
            .subquery()
            .c.id
        )
        for number in range(projects)
    ]
    newest = union_all(*each).subquery()
    return select(newest.c.id).order_by(newest.c.id.desc()).limit(most)
