"""Runs the demo of `pharos up --demo`: a shop with the real tracker, its past data, and live traffic."""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
from yarl import URL

from control_domain.audit import Actor
from control_domain.published_keys import ChangedKeys, publish_changes
from control_domain.sites.manage_goals import add_goal
from control_domain.sites.manage_sites import lock_site, update_site
from control_domain.sites.operations import find_sites, list_goals
from control_domain.sites.settings import SiteChanges
from control_domain.sites.site_rules import MAX_DOMAINS
from demo.api_client import ApiClient
from demo.ledger import Ledger
from demo.live_visits import post_live_visits
from demo.past_visits import past_visit_records
from demo.site import running_demo_site
from demo.story.tell import Story
from pipeline_contracts import topics
from storage_backends.end_task import end_task
from storage_backends.event_log.interface import EventLog
from wiring.embedded.platform import Platform

logger = logging.getLogger(__name__)

PAST_DAYS = 7.0
"""Days of telemetry before the first start. Visits have 90, because the report compares months."""

_FIRST_DAYS = 0.25
"""Days of telemetry that are loaded before the past visits."""
_SEED = 7
# A minute, because the database is busy while past data is loaded.
_ATTEMPTS = 30
# Records appended concurrently share writes to disk.
_CONCURRENT_APPENDS = 2000
_GOALS = {"Purchase": "purchase", "Signup": "signup"}
"""The events of the goals, keyed by the names of the goals."""
_ACTOR = Actor("demo")
_SITE_NAMES = {"My site": "Lanterns & Light"}
"""The name of the site of a new installation."""


class DemoSiteRemoved(Exception):
    """The site for the demo was removed."""


@asynccontextmanager
async def running_demo(platform: Platform, data: Path) -> AsyncIterator[str]:
    """Run the demo on the platform's first project and site, and yield the address of the demo shop.

    Past data is loaded in the background. A file in `data` records which parts exist, so that a later start continues.
    Raises `DemoSiteRemoved`.
    """
    site = platform.credentials["site"]
    host = platform.base_url.removesuffix("/api")
    ledger = Ledger(data / "demo.json")
    if not ledger.has("began"):
        ledger.note("began", int(time.time()))
    async with (
        running_demo_site(f"{host}/tracker/v1.js", site["tracker_id"]) as origin,
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session,
    ):
        # The demo's notification channel sends to this shop.
        address = URL(origin)
        platform.private_endpoints.add((address.host or "", address.port or 0))
        await _prepare_site(platform, site["id"], origin)
        client = ApiClient(session, platform.base_url, attempts=_ATTEMPTS)
        story = Story(platform, client, ledger, data, origin)
        await story.set_up()
        tasks = [
            asyncio.create_task(post_live_visits(platform.base_url, site["tracker_id"], origin)),
            *story.start_live(session, ApiClient(session, platform.base_url)),
            asyncio.create_task(_load_past(platform.log, ledger, story, site["id"])),
        ]
        try:
            yield origin
        finally:
            for task in tasks:
                await end_task(task)


async def _load_past(log: EventLog, ledger: Ledger, story: Story, site_id: int) -> None:
    """Load the past data; parts that pages show first come first. Never raises, because the platform can run without
    it."""
    try:
        async with asyncio.TaskGroup() as parts:
            parts.create_task(story.deploy())
            parts.create_task(_load_data(log, ledger, story, site_id))
    except* Exception as errors:
        for error in errors.exceptions:
            logger.exception(
                "a part of the demo could not be loaded; the next start tries again", exc_info=error
            )
    else:
        if not ledger.has("complete"):
            ledger.note("complete")
            print("The demo is complete: all pages have data.", flush=True)


async def _load_data(log: EventLog, ledger: Ledger, story: Story, site_id: int) -> None:
    await story.load_monitors()
    await story.load_telemetry(min(_FIRST_DAYS, PAST_DAYS))
    if not ledger.has("visits"):
        await append_past_visits(log, site_id)
        ledger.note("visits")
    await story.load_telemetry(PAST_DAYS)
    await story.decide()


async def _prepare_site(platform: Platform, site_id: int, origin: str) -> None:
    """Name the site, allow the demo shop's origins on it, and add its goals. Raises `DemoSiteRemoved`."""
    now = datetime.now(UTC)
    async with platform.sessions() as session, session.begin():
        # Account scope: the demo has no caller; it runs in the process of `pharos up`, on its first site.
        found = await find_sites(session, site_id)
        if not found:
            raise DemoSiteRemoved(f"Site {site_id} was removed.")
        (site,) = found
        await lock_site(session, site.site)
        origins = dict.fromkeys([*site.domains, origin, origin.replace("127.0.0.1", "localhost")])
        # If the shop gets another port at each start, origins would accumulate without limit.
        changes = SiteChanges(name=_SITE_NAMES.get(site.site.name), domains=list(origins)[-MAX_DOMAINS:])
        await update_site(session, site, changes, _ACTOR, now)
        known = {goal.name for goal in await list_goals(session, site.site)}
        for name, event in _GOALS.items():
            if name not in known:
                await add_goal(session, site, name, event, None, _ACTOR, now)
    changed = ChangedKeys(sites=[site_id])
    await publish_changes(platform.sessions, platform.directory, changed, datetime.now(UTC))


async def append_past_visits(log: EventLog, site_id: int) -> None:
    """Append the page views of 90 days. An interrupted run may be repeated on the same day: the events have the same
    IDs, so none is stored twice."""
    appends = []
    for key, meta, value in past_visit_records(random.Random(_SEED), site_id, "UTC", datetime.now(UTC)):
        appends.append(log.append(topics.PAGEVIEWS, key, meta, value))
        if len(appends) == _CONCURRENT_APPENDS:
            await asyncio.gather(*appends)
            appends.clear()
    await asyncio.gather(*appends)
