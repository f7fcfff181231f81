"""Keeps others from changing a project while one transaction does."""

from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.engine import lock_row
from control_domain.tables.projects import Project
from pipeline_contracts.errors import NotFound


async def lock_project_row(session: AsyncSession, project: Project) -> None:
    """Let nobody else rename the project, set its workflow, apply a configuration to it or remove it until the end of
    the transaction. Raises `NotFound` where it was removed since it was looked for."""
    if not await lock_row(session, Project.name, Project.id == project.id):
        raise NotFound("The account has no such project.")
