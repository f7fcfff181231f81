"""Reads pages of deployments, newest first, of the projects that a person may see."""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import Integer, Select, bindparam, select, union_all
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import sees_all_projects
from control_domain.database.public_ids import MAX_NUMBER
from control_domain.paging import Page
from control_domain.tables.deployments import Deployment
from control_domain.tables.projects import Environment, Project, ProjectRole

# Up to this number of projects, read each from its own index; above it, scan the index of the account.
_MAX_SEPARATE_PROJECTS = 100
# These stand in for a number of projects: all projects of the account, and a list that is too long or empty.
_ALL_PROJECTS = 0
_MANY_PROJECTS = -1
_OWN_PROJECTS = (
    select(ProjectRole.project_id)
    .join(Project, Project.id == ProjectRole.project_id)
    .where(ProjectRole.person_id == bindparam("person"), Project.account_id == bindparam("account"))
)


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
    values: dict[str, object] = {
        "account": caller.account.id,
        "limit": page.limit + 1,
        "last": MAX_NUMBER if page.before is None else page.before - 1,
    }
    if projects is None:
        query = _select_page(_ALL_PROJECTS)
    elif 0 < len(projects) <= _MAX_SEPARATE_PROJECTS:
        query = _select_page(len(projects))
        values |= {f"project_{number}": project for number, project in enumerate(projects)}
    else:
        query = _select_page(_MANY_PROJECTS)
        values["projects"] = projects
    rows = [(ListedDeployment._make(row[:-1]), row[-1]) for row in await session.execute(query, values)]
    return rows[: page.limit], len(rows) > page.limit


async def _list_own_projects(session: AsyncSession, caller: Caller) -> Sequence[int]:
    values = {"account": caller.account.id, "person": caller.person.id}
    return (await session.execute(_OWN_PROJECTS, values)).scalars().all()


@lru_cache(maxsize=_MAX_SEPARATE_PROJECTS + 2)
def _select_page(projects: int) -> Select[*tuple[Any, ...]]:
    """Select the newest `limit` deployments, up to the ID `last`, of this number of projects, or of a constant.

    Cached, because building the query takes longer than running it.
    """
    if projects > 0:
        newest = _select_newest_of_each(projects)
    else:
        newest = select(Deployment.id).where(
            Deployment.account_id == bindparam("account"), Deployment.id <= bindparam("last")
        )
        if projects == _MANY_PROJECTS:
            newest = newest.where(Deployment.project_id.in_(bindparam("projects", expanding=True)))
        newest = newest.order_by(Deployment.id.desc()).limit(bindparam("limit", type_=Integer))
    return (
        select(*_COLUMNS, Environment.public_id)
        .outerjoin(Environment, Environment.id == Deployment.environment_id)
        .where(Deployment.account_id == bindparam("account"), Deployment.id.in_(newest))
        .order_by(Deployment.id.desc())
    )


def _select_newest_of_each(projects: int) -> Select[int]:
    """Select the IDs of the newest `limit` deployments of this number of projects, up to the ID `last`.

    Each project needs its own LIMIT: for `project_id IN (…)` both databases would sort all deployments instead of
    reading an index.
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
