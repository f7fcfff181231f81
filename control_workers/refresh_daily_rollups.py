"""Tells the visits of days that are over in the background, so that nobody's report has to wait for it."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta

from sqlalchemy.exc import SQLAlchemyError

from analytics_queries.visits.calendar_days import day_of, days_between
from analytics_queries.visits.remove_superseded import remove_superseded
from analytics_queries.visits.tell_days import tell_days
from control_domain.database.engine import Sessions
from control_domain.sites.operations import find_sites
from control_workers.run_periodically import keep_doing
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.column_store.interface import ColumnStore, QueryRefused

logger = logging.getLogger(__name__)

_EVERY_SECONDS = 300.0
# As far back as a report of 365 days and its previous period go.
_DAYS = 730


async def tell_finished_days(sessions: Sessions, store: ColumnStore, now: datetime) -> None:
    """Of every site, what is not told yet. Raises `StorageUnavailable` and what the database raises."""
    async with sessions() as session:
        sites = [(seen.site.id, seen.site.timezone) for seen in await find_sites(session)]
    for site_id, timezone in sites:
        yesterday = day_of(now, timezone) - timedelta(days=1)
        days = days_between(yesterday - timedelta(days=_DAYS), yesterday)
        await tell_days(store, site_id, timezone, days, now)


async def keep_told(
    sessions: Sessions, store: ColumnStore, stop: asyncio.Event, *, every: float = _EVERY_SECONDS
) -> None:
    """Do so every few minutes, and once a day remove what was told anew since, until `stop`."""
    cleaned_on = None

    async def tell() -> None:
        nonlocal cleaned_on
        now = datetime.now(UTC)
        await tell_finished_days(sessions, store, now)
        if now.date() != cleaned_on:
            await remove_superseded(store, now)
            cleaned_on = now.date()

    # Reports tell by themselves what they need; this only spares them the wait.
    await keep_doing(
        tell,
        stop,
        every=every,
        logger=logger,
        outage="finished days could not be told now",
        fault="finished days could not be told",
        passing=(StorageUnavailable, QueryRefused, SQLAlchemyError),
    )
