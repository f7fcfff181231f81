"""Runs the demo of `pharos up --demo`: a shop with the real tracker, its telemetry, past visits and live ones."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from control_domain.audit import Actor
from control_domain.published_keys import ChangedKeys, publish_changes
from control_domain.sites.manage_goals import add_goal
from control_domain.sites.manage_sites import lock_site, update_site
from control_domain.sites.operations import find_sites, list_goals
from control_domain.sites.settings import SiteChanges
from control_domain.sites.site_rules import MAX_DOMAINS
from demo.live_visits import post_live_visits
from demo.past_visits import past_visit_records
from demo.site import running_demo_site
from demo.telemetry import send_demo_telemetry
from pipeline_contracts import topics
from storage_backends.end_task import end_task
from storage_backends.event_log.interface import EventLog
from wiring.embedded.platform import Platform

_SEED = 7
# Records appended concurrently share writes to disk.
_CONCURRENT_APPENDS = 2000
_GOALS = {"Purchase": "purchase", "Signup": "signup"}
"""The events of the goals, by their names."""
_ACTOR = Actor("demo")


class DemoSiteRemoved(Exception):
    """The site that the demo needs was removed."""


@asynccontextmanager
async def running_demo(platform: Platform, data: Path) -> AsyncIterator[str]:
    """Run the demo on the platform's first site, and yield the address of the demo shop. A file in `data` marks that
    the past visits exist. Raises `DemoSiteRemoved`."""
    site = platform.credentials["site"]
    host = platform.base_url.removesuffix("/api")
    async with running_demo_site(f"{host}/tracker/v1.js", site["tracker_id"]) as origin:
        await _prepare_site(platform, site["id"], origin)
        marker = data / "demo-visits"
        if not marker.exists():
            await _append_past_visits(platform.log, site["id"])
            marker.touch()
        tasks = [
            asyncio.create_task(send_demo_telemetry(platform.base_url, platform.credentials["ingest_key"])),
            asyncio.create_task(post_live_visits(platform.base_url, site["tracker_id"], origin)),
        ]
        try:
            yield origin
        finally:
            for task in tasks:
                await end_task(task)


async def _prepare_site(platform: Platform, site_id: int, origin: str) -> None:
    """Allow the demo shop's origins on the site, and add its goals. Raises `DemoSiteRemoved`."""
    now = datetime.now(UTC)
    async with platform.sessions() as session, session.begin():
        # Account scope: the demo has no caller; it runs in the process of `pharos up`, on its first site.
        found = await find_sites(session, site_id)
        if not found:
            raise DemoSiteRemoved(f"Site {site_id} was removed.")
        (site,) = found
        await lock_site(session, site.site)
        origins = dict.fromkeys([*site.domains, origin, origin.replace("127.0.0.1", "localhost")])
        # A shop on another port each time would add origins without end.
        changes = SiteChanges(domains=list(origins)[-MAX_DOMAINS:])
        await update_site(session, site, changes, _ACTOR, now)
        known = {goal.name for goal in await list_goals(session, site.site)}
        for name, event in _GOALS.items():
            if name not in known:
                await add_goal(session, site, name, event, None, _ACTOR, now)
    changed = ChangedKeys(sites=[site_id])
    await publish_changes(platform.sessions, platform.directory, changed, datetime.now(UTC))


async def _append_past_visits(log: EventLog, site_id: int) -> None:
    """Append the page views of 90 days. An interrupted run may be repeated on the same day: the events have the same
    IDs, so none is stored twice."""
    appends = []
    for key, meta, value in past_visit_records(random.Random(_SEED), site_id, "UTC", datetime.now(UTC)):
        appends.append(log.append(topics.PAGEVIEWS, key, meta, value))
        if len(appends) == _CONCURRENT_APPENDS:
            await asyncio.gather(*appends)
            appends.clear()
    await asyncio.gather(*appends)
