"""What `pharos up --demo` adds: a shop's telemetry, its site with the real tracker, past visits and live ones."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from demo.browsing import keep_browsing
from demo.site import running_demo_site
from demo.traffic import send_demo_traffic
from demo.visits import demo_records
from operator_actions.door import ACTIONS, Engines
from pipeline_contracts import topics
from storage_backends.end_task import end_task
from storage_backends.event_log.interface import EventLog
from wiring.embedded.platform import Platform

_SEED = 7
# Appended at once: they share a few writes to disk.
_TOGETHER = 2000
_GOALS = ({"name": "Purchase", "event": "purchase"}, {"name": "Signup", "event": "signup"})


@asynccontextmanager
async def running_demo(platform: Platform, data: Path) -> AsyncIterator[str]:
    """The demo on a running platform, with its first site; gives the address of the demo shop. `data` remembers
    that the past was made."""
    site = platform.credentials["site"]
    host = platform.base_url.removesuffix("/api")
    async with running_demo_site(f"{host}/tracker/v1.js", site["tracker_id"]) as origin:
        await _prepare_site(platform.engines, site["id"], origin)
        made = data / "demo-visits"
        if not made.exists():
            await _make_past(platform.log, site["id"])
            made.touch()
        tasks = [
            asyncio.create_task(send_demo_traffic(platform.base_url, platform.credentials["ingest_key"])),
            asyncio.create_task(keep_browsing(platform.base_url, site["tracker_id"], origin)),
        ]
        try:
            yield origin
        finally:
            for task in tasks:
                await end_task(task)


async def _prepare_site(engines: Engines, site_id: int, origin: str) -> None:
    """Let the demo shop's pages send to the site, and give it goals."""
    now = datetime.now(UTC)
    origins = [origin, origin.replace("127.0.0.1", "localhost")]
    await ACTIONS["sites/domains"](engines, {"id": site_id, "add": origins, "remove": []}, now)
    shown = await ACTIONS["sites/show"](engines, {"id": site_id}, now)
    known = {goal["name"] for goal in shown["goals"]}
    for goal in _GOALS:
        if goal["name"] not in known:
            await ACTIONS["sites/goals-add"](engines, {"id": site_id, **goal}, now)


async def _make_past(log: EventLog, site_id: int) -> None:
    """Append what the site's visitors would have sent in 90 days. Cut short and done again on the same day, nothing is
    there twice: events have the same IDs."""
    waiting = []
    for key, meta, value in demo_records(random.Random(_SEED), site_id, "UTC", datetime.now(UTC)):
        waiting.append(log.append(topics.PAGEVIEWS, key, meta, value))
        if len(waiting) == _TOGETHER:
            await asyncio.gather(*waiting)
            waiting.clear()
    await asyncio.gather(*waiting)
