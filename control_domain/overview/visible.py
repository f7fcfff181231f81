"""The projects, environments and sites that a caller may read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.projects.describe import EnvironmentSummary, ProjectSummary
from control_domain.projects.find import in_visible_projects
from control_domain.tables.projects import Environment, Project
from control_domain.tables.sites import Site

MAX_ENVIRONMENTS = 2000
"""The number of environments in an overview, the newest ones. Queries contain their IDs, and a query's length is
limited."""


class VisibleProject(NamedTuple):
    """The columns of a project that the overview names."""

    id: int
    public_id: str
    name: str
    slug: str

    def summarize(self) -> ProjectSummary:
        return {"id": self.public_id, "name": self.name, "slug": self.slug}


class VisibleEnvironment(NamedTuple):
    """The columns of an environment that the overview names."""

    id: int
    public_id: str
    name: str
    slug: str
    type: str
    project_id: int

    def summarize(self) -> EnvironmentSummary:
        return {"id": self.public_id, "name": self.name, "slug": self.slug}


class VisibleSite(NamedTuple):
    """The columns of a site that the overview names."""

    id: int
    name: str
    project_id: int


@dataclass(frozen=True)
class Visible:
    """The objects that a caller may read, in the order of numbers, with the newest `MAX_ENVIRONMENTS` environments."""

    projects: Mapping[int, VisibleProject]
    environments: Mapping[int, VisibleEnvironment]
    sites: Sequence[VisibleSite]

    @cached_property
    def by_public_id(self) -> Mapping[str, VisibleEnvironment]:
        return {each.public_id: each for each in self.environments.values()}

    @property
    def environment_ids(self) -> Sequence[str]:
        """The public IDs of the environments."""
        return [each.public_id for each in self.environments.values()]

    def project_of(self, environment: VisibleEnvironment) -> VisibleProject:
        return self.projects[environment.project_id]


async def read_visible(session: AsyncSession, caller: Caller, project_id: int | None = None) -> Visible:
    """Return the objects that the caller may read, only those of one project if its number is given."""
    conditions = [*in_visible_projects(caller)]
    if project_id is not None:
        conditions.append(Project.id == project_id)
    # Account scope: `in_visible_projects` is bound to the account.
    projects = select(Project.id, Project.public_id, Project.name, Project.slug).where(*conditions)
    # Account scope: `in_visible_projects` is bound to the account.
    environments = (
        select(
            Environment.id,
            Environment.public_id,
            Environment.name,
            Environment.slug,
            Environment.type,
            Environment.project_id,
        )
        .join(Project, Project.id == Environment.project_id)
        .where(*conditions)
        .order_by(Environment.id.desc())
        .limit(MAX_ENVIRONMENTS)
    )
    # Account scope: `in_visible_projects` is bound to the account.
    sites = (
        select(Site.id, Site.name, Site.project_id)
        .join(Project, Project.id == Site.project_id)
        .where(*conditions)
        .order_by(Site.id)
    )
    listed = [VisibleProject(*row) for row in await session.execute(projects.order_by(Project.id))]
    found = [VisibleEnvironment(*row) for row in await session.execute(environments)]
    return Visible(
        {each.id: each for each in listed},
        {each.id: each for each in reversed(found)},
        [VisibleSite(*row) for row in await session.execute(sites)],
    )


def only_environment(environment: Environment, project: Project) -> Visible:
    """Return the objects of one environment that was found for the caller."""
    return Visible(
        {project.id: VisibleProject(project.id, project.public_id, project.name, project.slug)},
        {
            environment.id: VisibleEnvironment(
                environment.id,
                environment.public_id,
                environment.name,
                environment.slug,
                environment.type,
                project.id,
            )
        },
        [],
    )
