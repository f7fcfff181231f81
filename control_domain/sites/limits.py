"""Limits of the sites of an account and of the goals of a site."""

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.tables.projects import Project
from control_domain.tables.sites import Goal, Site
from pipeline_contracts.errors import Conflict

MAX_SITES = 1000
"""Limit of one account. The list of sites has no pages, and queries the column store for all sites at once."""
MAX_GOALS = 100
"""Limit of one site. A report counts all of them, and a configuration document accepts the same number."""


async def check_number_of_sites(session: AsyncSession, project_id: int) -> None:
    """Raise `Conflict` if the account of the project has no room for one more site.

    The limit need not be exact: concurrent requests may exceed it slightly.
    """
    # Account scope: the caller has checked the project.
    account_id = select(Project.account_id).where(Project.id == project_id).scalar_subquery()
    query = (
        select(func.count())
        .select_from(Site)
        .join(Project, Project.id == Site.project_id)
        .where(Project.account_id == account_id)
    )
    if (await session.execute(query)).scalar_one() >= MAX_SITES:
        raise Conflict(f"The account has {MAX_SITES:,} sites, which is the limit: remove one first.")


async def check_number_of_goals(session: AsyncSession, site: Site) -> None:
    """Raise `Conflict` if the site has no room for one more goal."""
    query = select(func.count()).where(Goal.site_id == site.id)
    if (await session.execute(query)).scalar_one() >= MAX_GOALS:
        raise Conflict(f"The site has {MAX_GOALS} goals, which is the limit: remove one first.")
