"""The inventory of an account: the number of its objects, and the environments and sites that store data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, TypedDict

from msgspec import Meta
from sqlalchemy import Select, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import sees_all_projects
from control_domain.tables.accounts import Account, Membership
from control_domain.tables.deployments import Deployment
from control_domain.tables.monitors import Heartbeat, Queue
from control_domain.tables.projects import Environment, Project, ProjectRole
from control_domain.tables.sites import Site


class ObjectCounts(TypedDict):
    """How many objects the account has now."""

    projects: int
    environments: int
    people: int
    monitors: Annotated[int, Meta(description="Heartbeats and queues.")]
    sites: int
    deployments: Annotated[
        int, Meta(description="All deployments ever made, except those of removed projects.")
    ]


class EnvironmentWithProject(NamedTuple):
    """The columns of an environment and its project that the usage names."""

    public_id: str
    name: str
    slug: str
    project_id: int
    project_public_id: str
    project_name: str
    project_slug: str


class SiteWithProject(NamedTuple):
    """The columns of a site and its project that the usage names."""

    id: int
    name: str
    project_id: int
    project_public_id: str
    project_name: str
    project_slug: str


@dataclass(frozen=True, slots=True)
class Inventory:
    """The objects of an account."""

    counts: ObjectCounts
    environments: Sequence[EnvironmentWithProject]
    sites: Sequence[SiteWithProject]
    visible_projects: frozenset[int] | None
    """The projects that the caller may see; None for all."""

    def is_visible(self, project_id: int) -> bool:
        return self.visible_projects is None or project_id in self.visible_projects


async def read_inventory(session: AsyncSession, caller: Caller) -> Inventory:
    """Return the inventory of the caller's account."""
    account = caller.account
    environments = (
        select(
            Environment.public_id,
            Environment.name,
            Environment.slug,
            Project.id,
            Project.public_id,
            Project.name,
            Project.slug,
        )
        .join(Project, Project.id == Environment.project_id)
        .where(Project.account_id == account.id)
        .order_by(Environment.id)
    )
    sites = (
        select(Site.id, Site.name, Project.id, Project.public_id, Project.name, Project.slug)
        .join(Project, Project.id == Site.project_id)
        .where(Project.account_id == account.id)
        .order_by(Site.id)
    )
    return Inventory(
        await _count_objects(session, account),
        [EnvironmentWithProject(*row) for row in await session.execute(environments)],
        [SiteWithProject(*row) for row in await session.execute(sites)],
        await _visible_projects(session, caller),
    )


async def _count_objects(session: AsyncSession, account: Account) -> ObjectCounts:
    of_account = Project.account_id == account.id

    async def count(query: Select[Any]) -> int:
        found: int = (await session.execute(query)).scalar_one()
        return found

    environments = select(func.count()).select_from(Environment).join(Project).where(of_account)
    monitors = [
        await count(select(func.count()).select_from(table).join(Environment).join(Project).where(of_account))
        for table in (Heartbeat, Queue)
    ]
    return {
        "projects": await count(select(func.count()).select_from(Project).where(of_account)),
        "environments": await count(environments),
        "people": await count(
            select(func.count()).select_from(Membership).where(Membership.account_id == account.id)
        ),
        "monitors": sum(monitors),
        "sites": await count(select(func.count()).select_from(Site).join(Project).where(of_account)),
        "deployments": await count(
            select(func.count()).select_from(Deployment).where(Deployment.account_id == account.id)
        ),
    }


async def _visible_projects(session: AsyncSession, caller: Caller) -> frozenset[int] | None:
    if sees_all_projects(caller.role):
        return None
    query = (
        select(ProjectRole.project_id)
        .join(Project, Project.id == ProjectRole.project_id)
        .where(Project.account_id == caller.account.id, ProjectRole.person_id == caller.person.id)
    )
    return frozenset((await session.execute(query)).scalars())
