"""Creates, finds, changes, removes and describes sites and goals."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.projects.describe import summarize_project
from control_domain.sites.limits import check_number_of_goals, check_number_of_sites
from control_domain.tables.accounts import Account
from control_domain.tables.projects import Project
from control_domain.tables.sites import Goal, ReportShare, Site
from pipeline_contracts.credentials import CredentialKind, digest_credential
from pipeline_contracts.errors import NotFound
from pipeline_contracts.identifiers import make_identifier
from pipeline_contracts.rate_limits import RateLimit
from pipeline_contracts.times import format_time, to_epoch_ms
from storage_backends.key_directory.interface import KeyEntry, SiteEntry


@dataclass(frozen=True, slots=True)
class SiteWithProject:
    """A site and the project that it belongs to."""

    site: Site
    project: Project

    @property
    def domains(self) -> list[str]:
        """The origins that events may come from."""
        return list_domains(self.site)


def list_domains(site: Site) -> list[str]:
    """Return the origins that events of the site may come from, in the order in which they were added."""
    domains: list[str] = json.loads(site.domains)
    return domains


async def create_site(
    session: AsyncSession, project_id: int, name: str, timezone: str, domains: Sequence[str], now: datetime
) -> Site:
    """Create a site; `domains` are registered origins. Raises `IntegrityError` if the name is taken, and `Conflict` if
    the account has too many sites."""
    await check_number_of_sites(session, project_id)
    site = Site(
        public_id=make_identifier("sit", to_epoch_ms(now)),
        project_id=project_id,
        name=name,
        timezone=timezone,
        domains=json.dumps(list(domains)),
        created_at=now,
    )
    session.add(site)
    await session.flush()
    return site


async def list_account_sites(
    session: AsyncSession, account: Account, *conditions: ColumnElement[bool]
) -> Sequence[SiteWithProject]:
    """Return the account's sites that meet the conditions, ordered by ID."""
    return await _read_sites(session, Project.account_id == account.id, *conditions)


async def find_account_site(session: AsyncSession, account: Account, site_id: int) -> SiteWithProject | None:
    """Return the site of this ID; None if the account has none."""
    found = await _read_sites(session, Project.account_id == account.id, Site.id == site_id)
    return found[0] if found else None


async def find_sites(session: AsyncSession, site_id: int | None = None) -> Sequence[SiteWithProject]:
    """Return the sites of all accounts, ordered by ID, or the one of this ID."""
    return await _read_sites(session, *([] if site_id is None else [Site.id == site_id]))


async def _read_sites(session: AsyncSession, *conditions: ColumnElement[bool]) -> Sequence[SiteWithProject]:
    # Account scope: the callers give the conditions.
    query = select(Site, Project).join(Project, Project.id == Site.project_id).where(*conditions)
    return [SiteWithProject(*row) for row in await session.execute(query.order_by(Site.id))]


async def change_domains(session: AsyncSession, site: Site, domains: Sequence[str]) -> bool:
    """Set the site's domains. Return False, without a change, if they changed since the site was read."""
    # Compare with the domains that were read: SQLite takes no lock on reads.
    previous, new = site.domains, json.dumps(list(domains))
    changed = await session.execute(
        update(Site)
        .where(Site.id == site.id, Site.domains == previous)
        .values(domains=new)
        .returning(Site.id)
        .execution_options(synchronize_session=False)
    )
    if changed.scalar_one_or_none() is None:
        return False
    await session.refresh(site)
    return True


async def change_timezone(session: AsyncSession, site: Site, timezone: str) -> None:
    """Set the site's time zone, which also applies to past days."""
    site.timezone = timezone
    await session.flush()


async def remove_site(
    session: AsyncSession, found: SiteWithProject, actor: Actor, now: datetime
) -> Sequence[bytes]:
    """Delete the site, its goals and the links to its report. Return the digest of its tracker ID, which the edges
    must drop after the commit.

    Its events stay in the column store until their retention ends, but nobody can read them: its ID is never reused.
    Raises `NotFound` if the site was removed meanwhile.
    """
    site, project = found.site, found.project
    # After this statement no goal can be added on Postgres; on SQLite, after the first DELETE.
    await session.execute(select(Site.id).where(Site.id == site.id).with_for_update())
    goals = delete(Goal).where(Goal.site_id == site.id).returning(Goal.id)
    count = len((await session.execute(goals.execution_options(synchronize_session=False))).all())
    shares = delete(ReportShare).where(ReportShare.site_id == site.id)
    await session.execute(shares.execution_options(synchronize_session=False))
    removed = delete(Site).where(Site.id == site.id).returning(Site.id)
    result = await session.execute(removed.execution_options(synchronize_session=False))
    if result.scalar_one_or_none() is None:
        raise NotFound(f"Site {site.id} was just removed by another request.")
    details = {
        "project": project.public_id,
        "name": site.name,
        "tracker_id": site.public_id,
        "domains": found.domains,
        "goals": count,
    }
    record_audit_entry(session, actor, project.account_id, "site.remove", f"site {site.id}", now, details)
    await session.flush()
    return [digest_credential(site.public_id)]


async def add_goal(
    session: AsyncSession, site: Site, name: str, event: str | None, path: str | None, now: datetime
) -> Goal:
    """Create a goal: events of this name, or views of this path. Raises `IntegrityError` if the name is taken, and
    `Conflict` if the site has too many goals."""
    await check_number_of_goals(session, site)
    goal = Goal(site_id=site.id, name=name, event=event, path=path, created_at=now)
    session.add(goal)
    await session.flush()
    return goal


async def set_goal_target(session: AsyncSession, goal: Goal, event: str | None, path: str | None) -> bool:
    """Set the event or the path of the goal, also for past visits; exactly one of the two is given. Return False if the
    goal was removed since it was read."""
    changed = update(Goal).where(Goal.id == goal.id).values(event=event, path=path).returning(Goal.id)
    result = await session.execute(changed.execution_options(synchronize_session=False))
    if result.scalar_one_or_none() is None:
        return False
    await session.refresh(goal)
    return True


async def remove_goal(session: AsyncSession, site: Site, goal_id: int) -> bool:
    """Remove the goal of this ID. Return False if the site has none."""
    removed = delete(Goal).where(Goal.id == goal_id, Goal.site_id == site.id).returning(Goal.id)
    return (await session.execute(removed)).scalar_one_or_none() is not None


async def list_goals(session: AsyncSession, site: Site) -> Sequence[Goal]:
    """Return the site's goals, ordered by ID."""
    goals = select(Goal).where(Goal.site_id == site.id).order_by(Goal.id)
    return (await session.execute(goals)).scalars().all()


async def live_sites(
    session: AsyncSession, site_id: int | None = None, *, account_id: int | None = None
) -> Sequence[KeyEntry]:
    """Return the sites as entries for the edges: all of them, or those with this ID or of one account."""
    # Account scope: the edges need the sites of every account.
    query = (
        select(Site, Project.public_id, Account)
        .join(Project, Project.id == Site.project_id)
        .join(Account, Account.id == Project.account_id)
    )
    if site_id is not None:
        query = query.where(Site.id == site_id)
    if account_id is not None:
        query = query.where(Account.id == account_id)
    return [
        KeyEntry(
            digest=digest_credential(site.public_id),
            kind=CredentialKind.SITE,
            account_id=account.public_id,
            project_id=project_id,
            environment_id="",
            limit=RateLimit(account.ingest_rate, account.ingest_burst),
            site=SiteEntry(site.id, tuple(list_domains(site))),
        )
        for site, project_id, account in await session.execute(query)
    ]


def describe_site(found: SiteWithProject, last_event: datetime | None) -> dict[str, Any]:
    """Return the site as the public API shows it. `last_event`: when its newest event was received."""
    site, project = found.site, found.project
    return {
        "id": site.id,
        "name": site.name,
        "project": summarize_project(project),
        "tracker_id": site.public_id,
        "domains": found.domains,
        "timezone": site.timezone,
        # Events from other origins are refused, so a stored event came from a registered origin.
        "verified": last_event is not None,
        "last_event_at": None if last_event is None else format_time(last_event),
    }


def describe_goal(goal: Goal) -> dict[str, Any]:
    """Either `event` or `path` is null."""
    return {"id": goal.id, "name": goal.name, "event": goal.event, "path": goal.path}
