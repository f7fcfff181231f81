"""Finds, creates, changes and removes sites for people, with audit entries."""

import json
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.accounts.operations import Caller
from control_domain.accounts.roles import Right
from control_domain.audit import Actor, record_audit_entry
from control_domain.database.errors import BrokenReference
from control_domain.database.public_ids import parse_number
from control_domain.database.statements import lock_row
from control_domain.projects.find import is_callers_role, require_right
from control_domain.sites.operations import SiteWithProject, create_site, list_domains
from control_domain.sites.settings import SiteChanges, check_new_site, check_site_changes
from control_domain.tables.projects import Project, ProjectRole
from control_domain.tables.sites import Site
from pipeline_contracts.errors import NameTaken, NotFound


async def find_site(session: AsyncSession, caller: Caller, number: str, right: Right) -> SiteWithProject:
    """Return the site with this number.

    Raises `NotFound`, also for a site of another account, and `DeployNotAllowed`.
    """
    query = (
        select(Site, Project, ProjectRole.role)
        .join(Project, Project.id == Site.project_id)
        .outerjoin(ProjectRole, is_callers_role(caller))
        .where(Project.account_id == caller.account.id, Site.id == (parse_number(number) or 0))
    )
    row = (await session.execute(query)).one_or_none()
    if row is None:
        raise NotFound("The account has no such site.")
    require_right(caller, row[2], right)
    return SiteWithProject(row[0], row[1])


async def add_site(
    session: AsyncSession,
    project: Project,
    name: str | None,
    domains: Sequence[str],
    timezone: str,
    actor: Actor,
    now: datetime,
) -> SiteWithProject:
    """Create a site. `name` None means the host of the first domain.

    Raises `InvalidInput`, `NameTaken`, and `Conflict` if the account has too many sites.
    """
    settings = check_new_site(name, domains, timezone)
    try:
        async with session.begin_nested():
            site = await create_site(
                session, project.id, settings.name, settings.timezone, settings.domains, now
            )
    except BrokenReference:
        raise
    except IntegrityError:
        raise _name_taken(settings.name) from None
    details = {"project": project.public_id, **settings._asdict()}
    record_audit_entry(session, actor, project.account_id, "site.create", f"site {site.id}", now, details)
    return SiteWithProject(site, project)


async def lock_site(session: AsyncSession, site: Site) -> None:
    """Lock the site until the end of the transaction, and refresh it. Raises `NotFound` if it was removed."""
    if not await lock_row(session, Site.timezone, Site.id == site.id):
        raise NotFound("The account has no such site.")
    await session.refresh(site)


async def update_site(
    session: AsyncSession, found: SiteWithProject, changes: SiteChanges, actor: Actor, now: datetime
) -> None:
    """Change settings of the site, which the caller has locked. Raises `InvalidInput` and `NameTaken`."""
    site, changes = found.site, check_site_changes(changes)
    changed = {
        name: {"from": present, "to": new}
        for name, present, new in (
            ("name", site.name, changes.name),
            ("domains", list_domains(site), changes.domains),
            ("timezone", site.timezone, changes.timezone),
        )
        if new is not None and new != present
    }
    if not changed:
        return
    values = {name: change["to"] for name, change in changed.items()}
    if "domains" in values:
        values["domains"] = json.dumps(values["domains"])
    try:
        async with session.begin_nested():
            await session.execute(update(Site).where(Site.id == site.id).values(**values))
    except IntegrityError:
        raise _name_taken(str(changes.name)) from None
    await session.refresh(site)
    subject = f"site {site.id}"
    record_audit_entry(session, actor, found.project.account_id, "site.set", subject, now, changed)


def _name_taken(name: str) -> NameTaken:
    return NameTaken(f"The project has a site with the name {name!r} already.")
