"""Refreshes the daily rollups of visits in the background, so that no report has to wait until they are refreshed."""

import asyncio
import logging
from collections import defaultdict
from datetime import UTC, datetime, timedelta

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from analytics_queries.visits.calendar_days import day_of, days_between
from analytics_queries.visits.refresh_rollups import refresh_rollups, remove_superseded
from analytics_queries.visits.report_request import Goals
from analytics_queries.visits.stored_days import stored_days
from control_domain.database.engine import Sessions
from control_domain.database.run_periodically import run_periodically
from control_domain.sites.operations import find_sites
from control_domain.sites.reports import what_goals_count
from control_domain.tables.sites import Goal
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.column_store.interface import ColumnStore, QueryRefused

logger = logging.getLogger(__name__)

_EVERY_SECONDS = 300.0
# A report of 365 days and its previous period read this many days.
_DAYS = 730
# If this many sites in a row cannot be refreshed, the column store is unreachable.
_MOST_FAILURES = 3

Complete = dict[int, int]
"""By site, a hash of the runs and goals whose figures were complete at the last check."""


async def refresh_finished_days(
    sessions: Sessions, store: ColumnStore, now: datetime, complete: Complete | None = None
) -> None:
    """Refresh the stale rollups of past days of every site, and the figures that reports read from them. `complete`:
    remembers which sites are complete, so that the next call skips them. A site that cannot be refreshed is logged,
    and does not stop the others.

    Raises `StorageUnavailable`, `QueryRefused` and database errors.
    """
    async with sessions() as session:
        sites = [(seen.site.id, seen.site.timezone) for seen in await find_sites(session)]
        goals = defaultdict[int, list[Goal]](list)
        # Needs no account filter: the worker refreshes the rollups of all accounts.
        for goal in (await session.execute(select(Goal))).scalars():
            goals[goal.site_id].append(goal)
    complete = {} if complete is None else complete
    failures = 0
    for site_id, timezone in sites:
        try:
            counted = what_goals_count(goals[site_id])
            await _refresh_site(store, site_id, timezone, counted, now, complete)
            failures = 0
        except (StorageUnavailable, QueryRefused) as error:
            failures += 1
            if failures == min(_MOST_FAILURES, len(sites)):
                raise
            logger.warning("the daily rollups of site %d cannot be refreshed now: %s", site_id, error)


async def _refresh_site(
    store: ColumnStore, site_id: int, timezone: str, goals: Goals, now: datetime, complete: Complete
) -> None:
    yesterday = day_of(now, timezone) - timedelta(days=1)
    days = days_between(yesterday - timedelta(days=_DAYS), yesterday)
    runs = await refresh_rollups(store, site_id, timezone, days, now)
    state = hash((goals, frozenset(runs.items())))
    if complete.get(site_id) != state:
        stored = await stored_days(store, site_id, goals, days, runs)
        if stored.keys() >= runs.keys():
            complete[site_id] = state


async def refresh_rollups_periodically(
    sessions: Sessions, store: ColumnStore, stop: asyncio.Event, *, every: float = _EVERY_SECONDS
) -> None:
    """Refresh stale rollups every `every` seconds and delete superseded rows once a day, until `stop` is set."""
    cleaned_on = None
    complete: Complete = {}

    async def refresh() -> None:
        nonlocal cleaned_on
        now = datetime.now(UTC)
        await refresh_finished_days(sessions, store, now, complete)
        if now.date() != cleaned_on:
            await remove_superseded(store, now)
            cleaned_on = now.date()

    # A report refreshes the rollups that it needs. This worker only makes reports faster.
    await run_periodically(
        refresh,
        stop,
        every=every,
        logger=logger,
        outage="daily rollups cannot be refreshed now",
        fault="daily rollups could not be refreshed",
        transient=(StorageUnavailable, QueryRefused, SQLAlchemyError),
    )
