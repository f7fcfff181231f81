"""Rights to see and change rows that belong to a project, to the account or to the platform.

Only owners and admins may see and change rows without a project.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from control_domain.accounts.operations import Caller
from control_domain.accounts.rights import require_account_right
from control_domain.accounts.roles import AccountRight, Right, sees_all_projects
from control_domain.projects.find import require_right
from control_domain.tables.projects import ProjectRole


def in_projects_of(caller: Caller, project_id: InstrumentedAttribute[Any]) -> Sequence[ColumnElement[bool]]:
    """Return the conditions that a row of the account belongs to a project that the caller may read."""
    if sees_all_projects(caller.role):
        return ()
    # Account scope: the queries that this is a part of are bound to the account.
    own = select(ProjectRole.project_id).where(ProjectRole.person_id == caller.person.id)
    return (project_id.in_(own),)


async def require_right_at(
    session: AsyncSession, caller: Caller, project_id: int | None, right: Right
) -> None:
    """Raise `DeployNotAllowed` unless the caller has the right in this project of the account, or, without a project,
    `NotAllowed` unless the caller manages the account."""
    if project_id is None:
        require_account_right(caller, AccountRight.MANAGE)
        return
    query = select(ProjectRole.role).where(
        ProjectRole.project_id == project_id, ProjectRole.person_id == caller.person.id
    )
    require_right(caller, (await session.execute(query)).scalar_one_or_none(), right)
