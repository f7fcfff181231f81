"""Sites as an operator handles them: made, listed, shown, changed, removed, reported on."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from analytics_queries.visits.dropped_events import dropped_events
from analytics_queries.visits.last_events import last_events
from control_domain.audit import make_operator
from control_domain.database.engine import Sessions
from control_domain.database.errors import BrokenReference
from control_domain.keys import revoke_published_keys, warn_if_unpublished
from control_domain.projects.resolve import resolve_project
from control_domain.refusals import Refused
from control_domain.sites import operations, params
from control_domain.sites.operations import (
    SiteWithProject,
    describe_goal,
    describe_site,
    find_sites,
    list_goals,
    live_sites,
)
from control_domain.sites.reports import make_report
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.column_store.interface import ColumnStore
from storage_backends.key_directory.interface import KeyDirectory, KeyEntry

T = TypeVar("T")

_DROPPED_SINCE = timedelta(days=30)


async def list_sites(sessions: Sessions, store: ColumnStore | None, now: datetime) -> list[dict[str, Any]]:
    """Every site. `verified` and `last_event_at` are null where the column store cannot be asked."""
    async with sessions() as session:
        sites = await find_sites(session)
    last = await _ask(store, lambda asked: last_events(asked, [seen.site.id for seen in sites], now))
    return [_describe(seen, last) for seen in sites]


async def show_site(
    sessions: Sessions, store: ColumnStore | None, site_id: int, now: datetime
) -> dict[str, Any]:
    """One site, its `goals`, and the events `dropped` in the last 30 days by reason (null where the column store cannot
    be asked). Raises `Refused`."""
    async with sessions() as session:
        seen = await _the_one(session, site_id)
        goals = await list_goals(session, seen.site)
    last = await _ask(store, lambda asked: last_events(asked, [site_id], now))
    dropped = await _ask(store, lambda asked: dropped_events(asked, site_id, now - _DROPPED_SINCE))
    return {**_describe(seen, last), "goals": [describe_goal(goal) for goal in goals], "dropped": dropped}


async def _ask(store: ColumnStore | None, question: Callable[[ColumnStore], Awaitable[T]]) -> T | None:
    """The answer; None where the column store is not set or does not answer: what is configured can be shown all the
    same."""
    if store is None:
        return None
    try:
        return await question(store)
    except StorageUnavailable:
        return None


def _describe(seen: SiteWithProject, last: Mapping[int, datetime] | None) -> dict[str, Any]:
    if last is None:
        return {**describe_site(seen, None), "verified": None}
    return describe_site(seen, last.get(seen.site.id))


async def _the_one(session: AsyncSession, site_id: int) -> SiteWithProject:
    found = await find_sites(session, site_id)
    if not found:
        raise Refused(f"There is no site {site_id}; `pharos site list` shows all.")
    return found[0]


async def add_site(
    sessions: Sessions, directory: KeyDirectory, wanted: dict[str, Any], now: datetime
) -> dict[str, Any]:
    """A new site, which the edges know from now on.

    `params`: domains, name (the first domain's host), timezone (UTC), project_id (may be left out where there is one
    project). Raises `Refused`.
    """
    domains = params.read_origins(wanted, "domains")
    _check_number(domains)
    name = params.read_name(wanted, params.make_default_name(domains[0]))
    timezone = params.read_timezone(wanted)
    try:
        async with sessions() as session, session.begin():
            project = await resolve_project(session, wanted.get("project_id"))
            site = await operations.create_site(session, project.id, name, timezone, domains, now)
            told = describe_site(SiteWithProject(site, project), None)
            entries = await live_sites(session, site.id)
    except BrokenReference:
        raise
    except IntegrityError:
        raise Refused(
            f"The project has a site of the name {name!r} already; choose another with --name."
        ) from None
    return await _publish(directory, told, entries)


def _check_number(domains: Sequence[str]) -> None:
    if not domains:
        raise Refused("A site has at least one domain, like https://shop.example.")
    if len(domains) > params.MAX_DOMAINS:
        raise Refused(f"A site has at most {params.MAX_DOMAINS} domains; https://*.shop.example is one.")


async def _publish(
    directory: KeyDirectory, told: dict[str, Any], entries: Sequence[KeyEntry]
) -> dict[str, Any]:
    """Tell the edges of the site, after the commit."""
    with warn_if_unpublished(told):
        for entry in entries:
            await directory.publish(entry)
    return told


async def change_domains(
    sessions: Sessions, directory: KeyDirectory, site_id: int, wanted: dict[str, Any]
) -> dict[str, Any]:
    """Domains added to a site and removed from it, at the edges within 5 s. `params`: add, remove. Adding one that is
    there changes nothing. Raises `Refused`."""
    added, removed = (params.read_origins(wanted, name) for name in ("add", "remove"))
    async with sessions() as session, session.begin():
        seen = await _the_one(session, site_id)
        domains = list(dict.fromkeys([*seen.domains, *added]))
        for origin in removed:
            if origin not in domains:
                raise Refused(f"Site {site_id} has no domain {origin}; it has {', '.join(seen.domains)}.")
            domains.remove(origin)
        _check_number(domains)
        if not await operations.change_domains(session, seen.site, domains):
            raise Refused(
                "The site's domains were changed by somebody else meanwhile; run the command again."
            )
        entries = await live_sites(session, site_id)
    return await _publish(directory, {"id": site_id, "domains": domains}, entries)


async def change_timezone(sessions: Sessions, site_id: int, wanted: dict[str, Any]) -> dict[str, Any]:
    """Another time zone for a site's days, those before included. `params`: timezone. Raises `Refused`."""
    if not wanted.get("timezone"):
        raise Refused("Name the time zone, like Europe/Oslo.")
    timezone = params.read_timezone(wanted)
    async with sessions() as session, session.begin():
        seen = await _the_one(session, site_id)
        await operations.change_timezone(session, seen.site, timezone)
    return {"id": site_id, "timezone": timezone}


async def add_goal(sessions: Sessions, site_id: int, wanted: dict[str, Any], now: datetime) -> dict[str, Any]:
    """A new goal of a site; it counts what has happened before as well. `params`: either event or path, and name (the
    event or the path itself). Raises `Refused`."""
    event, path = params.read_goal_target(wanted)
    name = params.read_name(wanted, event or path or "")
    try:
        async with sessions() as session, session.begin():
            seen = await _the_one(session, site_id)
            goal = await operations.add_goal(session, seen.site, name, event, path, now)
            return {**describe_goal(goal), "site_id": site_id}
    except IntegrityError:
        async with sessions() as session:
            # Removed since: then no name is in the way.
            await _the_one(session, site_id)
        raise Refused(
            f"Site {site_id} has a goal of the name {name!r} already; choose another with --name."
        ) from None


async def remove_goal(sessions: Sessions, site_id: int, goal_id: int) -> dict[str, Any]:
    """Remove a goal; what it counted stays stored. Raises `Refused`."""
    async with sessions() as session, session.begin():
        seen = await _the_one(session, site_id)
        if not await operations.remove_goal(session, seen.site, goal_id):
            raise Refused(f"Site {site_id} has no goal {goal_id}; `pharos site show {site_id}` lists them.")
    return {"id": goal_id, "site_id": site_id, "removed": True}


async def remove_site(
    sessions: Sessions, directory: KeyDirectory, site_id: int, wanted: dict[str, Any], now: datetime
) -> dict[str, Any]:
    """Remove a site with its goals: no edge takes its events any more within 5 s. What was collected stays stored until
    its time is over. `params`: who asks. Raises `Refused`."""
    async with sessions() as session, session.begin():
        seen = await _the_one(session, site_id)
        digests = await operations.remove_site(session, seen, make_operator(wanted), now)
    told = {"id": site_id, "name": seen.site.name, "tracker_id": seen.site.public_id, "removed": True}
    await revoke_published_keys(directory, digests, told)
    return told


async def report_site(
    sessions: Sessions, store: ColumnStore, site_id: int | None, wanted: dict[str, Any], now: datetime
) -> dict[str, Any]:
    """The report on a site as the public API gives it, its `site` with the `tracker_id`.

    The site is that of the ID or, without one, that of `params`'s name, which may be a tracker ID. `params`: name,
    days, filters. Raises `Refused`, and `StorageUnavailable`.
    """
    query = params.read_report_params(wanted)
    async with sessions() as session:
        if site_id is None:
            seen = await _the_one_called(session, str(wanted.get("name") or ""))
        else:
            seen = await _the_one(session, site_id)
        goals = await list_goals(session, seen.site)
    report = await make_report(store, seen.site, goals, query, now)
    return {**report, "site": {**report["site"], "tracker_id": seen.site.public_id}}


async def _the_one_called(session: AsyncSession, called: str) -> SiteWithProject:
    found = await find_sites(session, name_or_id=called)
    if not found:
        raise Refused(f"There is no site {called!r}; `pharos site list` shows all.")
    if len(found) > 1:
        ids = ", ".join(str(seen.site.id) for seen in found)
        raise Refused(f"Several sites are called {called!r}: name one by its ID ({ids}).")
    return found[0]
