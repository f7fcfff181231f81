"""Creates and changes projects, with their audit entries."""

from datetime import datetime

from sqlalchemy import update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.database.errors import BrokenReference
from control_domain.projects.operations import create_project, lock_project_row
from control_domain.slugs import check_name, choose_slug
from control_domain.tables.accounts import Account
from control_domain.tables.projects import Project
from pipeline_contracts.errors import NameTaken


async def add_project(
    session: AsyncSession, account: Account, name: str, slug: str | None, actor: Actor, now: datetime
) -> Project:
    """Create a project without environments. `slug` None makes one from the name.

    Raises `InvalidInput`, `NameTaken` if the account has a project with the slug, and `Conflict` if it has too many.
    """
    name = check_name(name)
    slug = choose_slug(slug, name)
    try:
        async with session.begin_nested():
            project = await create_project(session, account, name, slug, now)
    except BrokenReference:
        raise
    except IntegrityError:
        raise NameTaken(f"The account has a project with the slug {slug} already.") from None
    subject = f"project {project.public_id}"
    record_audit_entry(session, actor, account.id, "project.create", subject, now, {"slug": slug})
    return project


async def rename_project(
    session: AsyncSession, project: Project, name: str, actor: Actor, now: datetime
) -> None:
    """Change the name of a project; its slug stays, because URLs and documents refer to it. The caller has locked the
    row.

    Raises `InvalidInput`.
    """
    name = check_name(name)
    if name == project.name:
        return
    details = {"from": project.name, "to": name}
    await session.execute(update(Project).where(Project.id == project.id).values(name=name))
    subject = f"project {project.public_id}"
    record_audit_entry(session, actor, project.account_id, "project.rename", subject, now, details)


async def lock_project(session: AsyncSession, project: Project) -> None:
    """Lock the project and refresh it. Raises `NotFound`."""
    await lock_project_row(session, project)
    await session.refresh(project)
