"""What is done with sites and goals in the database. A caller sees what is of the account; an operator sees all."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.tables.accounts import Account
from control_domain.tables.projects import Project
from control_domain.tables.sites import Goal, Site
from pipeline_contracts.credentials import CredentialKind, digest_credential
from pipeline_contracts.identifiers import make_identifier
from pipeline_contracts.rate_limits import RateLimit
from pipeline_contracts.times import to_epoch_ms
from storage_backends.key_directory.interface import KeyEntry, SiteEntry


@dataclass(frozen=True, slots=True)
class SeenSite:
    """A site and the project that it belongs to."""

    site: Site
    project: Project

    @property
    def domains(self) -> list[str]:
        """The origins that events may come from."""
        return domains_of(self.site)


def domains_of(site: Site) -> list[str]:
    """The origins that events of the site may come from, in the order in which they were added."""
    domains: list[str] = json.loads(site.domains)
    return domains


async def create_site(
    session: AsyncSession, project_id: int, name: str, timezone: str, domains: Sequence[str], now: datetime
) -> Site:
    """A new site of the project; `domains` are registered origins. Raises `IntegrityError` where the name is taken."""
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


async def sites_of_account(session: AsyncSession, account: Account) -> Sequence[SeenSite]:
    """The account's sites in the order of their IDs."""
    return await _read_sites(session, Project.account_id == account.id)


async def site_of_account(session: AsyncSession, account: Account, site_id: int) -> SeenSite | None:
    """The account's site of this ID; None for another account's."""
    found = await _read_sites(session, Project.account_id == account.id, Site.id == site_id)
    return found[0] if found else None


async def find_sites(
    session: AsyncSession, site_id: int | None = None, called: str | None = None
) -> Sequence[SeenSite]:
    """Sites of all accounts, for an operator: the one of this ID, those that are `called` so (by name or tracker ID),
    or all."""
    conditions = []
    if site_id is not None:
        conditions.append(Site.id == site_id)
    if called is not None:
        conditions.append((Site.name == called) | (Site.public_id == called))
    return await _read_sites(session, *conditions)


async def _read_sites(session: AsyncSession, *conditions: ColumnElement[bool]) -> Sequence[SeenSite]:
    # Account scope: the callers give the conditions.
    query = select(Site, Project).join(Project, Project.id == Site.project_id).where(*conditions)
    return [SeenSite(*row) for row in await session.execute(query.order_by(Site.id))]


async def change_domains(session: AsyncSession, site: Site, domains: Sequence[str]) -> bool:
    """Give the site these domains; False, and nothing changed, where others have changed them since it was read."""
    # What was read is part of the condition: SQLite locks nothing when it reads.
    was, new = site.domains, json.dumps(list(domains))
    changed = await session.execute(
        update(Site)
        .where(Site.id == site.id, Site.domains == was)
        .values(domains=new)
        .returning(Site.id)
        .execution_options(synchronize_session=False)
    )
    if changed.scalar_one_or_none() is None:
        return False
    await session.refresh(site)
    return True


async def change_timezone(session: AsyncSession, site: Site, timezone: str) -> None:
    """Let the site's days follow the clock of another time zone, those before included."""
    site.timezone = timezone
    await session.flush()


async def add_goal(
    session: AsyncSession, site: Site, name: str, event: str | None, path: str | None, now: datetime
) -> Goal:
    """A new goal: events of this name, or views of this path. Raises `IntegrityError` where the name is taken."""
    goal = Goal(site_id=site.id, name=name, event=event, path=path, created_at=now)
    session.add(goal)
    await session.flush()
    return goal


async def set_goal_target(session: AsyncSession, goal: Goal, event: str | None, path: str | None) -> bool:
    """Let the goal be events of another name or views of another path, exactly one of which is given; what happened
    before counts by it as well. False where the goal was removed since it was read."""
    changed = update(Goal).where(Goal.id == goal.id).values(event=event, path=path).returning(Goal.id)
    result = await session.execute(changed.execution_options(synchronize_session=False))
    if result.scalar_one_or_none() is None:
        return False
    await session.refresh(goal)
    return True


async def remove_goal(session: AsyncSession, site: Site, goal_id: int) -> bool:
    """Remove the goal of this ID; False where the site has none of it."""
    removed = delete(Goal).where(Goal.id == goal_id, Goal.site_id == site.id).returning(Goal.id)
    return (await session.execute(removed)).scalar_one_or_none() is not None


async def goals_of(session: AsyncSession, site: Site) -> Sequence[Goal]:
    """The site's goals in the order of their IDs."""
    goals = select(Goal).where(Goal.site_id == site.id).order_by(Goal.id)
    return (await session.execute(goals)).scalars().all()


async def live_sites(
    session: AsyncSession, site_id: int | None = None, *, account_id: int | None = None
) -> Sequence[KeyEntry]:
    """Every site, or the one of this ID, or those of an account, as the edges need it."""
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
            site=SiteEntry(site.id, tuple(domains_of(site))),
        )
        for site, project_id, account in await session.execute(query)
    ]
