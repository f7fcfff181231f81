"""Limits of the projects of an account, and of the environments and previews of a project.

The limits need not be exact: concurrent requests may exceed them slightly.
"""

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.tables.accounts import Account
from control_domain.tables.projects import Environment, Project
from pipeline_contracts.errors import Conflict

MAX_PROJECTS = 1000
MAX_ENVIRONMENTS = 100
"""Limit of one project, without previews. A configuration plan reads all environments with their variables."""
MAX_PREVIEWS = 200
"""Limit of one project. Each preview may run processes on the machine of its deployer."""


async def check_number_of_projects(session: AsyncSession, account: Account) -> None:
    """Raise `Conflict` if the account has no room for one more project."""
    query = select(func.count()).select_from(Project).where(Project.account_id == account.id)
    if (await session.execute(query)).scalar_one() >= MAX_PROJECTS:
        raise Conflict(f"The account has {MAX_PROJECTS:,} projects, which is the limit: remove one first.")


async def check_number_of_environments(session: AsyncSession, project: Project, type_: str) -> None:
    """Raise `Conflict` if the project has no room for one more preview or, for other types, environment."""
    if type_ == "preview":
        is_counted, most, kind = Environment.type == "preview", MAX_PREVIEWS, "previews"
    else:
        is_counted, most, kind = Environment.type != "preview", MAX_ENVIRONMENTS, "environments"
    query = select(func.count()).where(Environment.project_id == project.id, is_counted)
    if (await session.execute(query)).scalar_one() >= most:
        raise Conflict(f"The project has {most} {kind}, which is the limit: remove one first.")
