"""Visitors of the demo's shop who are there now, for `pharos up --demo`: they post what their trackers would."""

import asyncio
import heapq
import logging
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any
from uuid import UUID

import aiohttp
import orjson

from demo.audience import BROWSERS, LEADS, Browser, Lead
from demo.journeys import Step, in_requests, plan_visit
from pipeline_contracts.collected import MOST_EVENTS
from pipeline_contracts.times import format_time

logger = logging.getLogger(__name__)

# A visit brings about five events.
_VISITS_A_SECOND = 0.05
_TOGETHER_MS = 1_000
_ANSWER_SECONDS = 10.0
# While the platform hangs, no more visits begin than these requests belong to.
_MOST_WAITING = 300


@dataclass(frozen=True, slots=True)
class _Visit:
    visitor: str
    browser: Browser
    lead: Lead


@dataclass(order=True, slots=True)
class _Request:
    """What one visitor sends at `due`, seconds of the monotonic clock."""

    due: float
    number: int
    """Of the request within its visit."""
    visit: _Visit = field(compare=False)
    steps: list[Step] = field(compare=False)


async def keep_browsing(base_url: str, tracker_id: str, origin: str) -> None:
    """Post the visitors' events to `base_url` (which ends in `/api`), one or two a second, until cancelled.

    `origin` is the site's. What is refused or cannot be sent is lost, and logged once until something is taken again;
    nothing but the cancellation is raised.
    """
    rng = random.Random()
    url = f"{base_url}/v1/collect/{tracker_id}"
    waiting: list[_Request] = []
    next_visit = monotonic()
    failing = False
    timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session:
        while True:
            now = monotonic()
            if now >= next_visit:
                next_visit = now + rng.expovariate(_VISITS_A_SECOND)
                if len(waiting) < _MOST_WAITING:
                    for request in _new_visit(rng, now):
                        heapq.heappush(waiting, request)
            if waiting and waiting[0].due <= now:
                fault = await _post(session, url, origin, heapq.heappop(waiting), rng)
                if fault is not None and not failing:
                    logger.warning("demo visitors are not taken (%s); they go on trying", fault)
                failing = fault is not None
                continue
            wake = min(next_visit, waiting[0].due) if waiting else next_visit
            await asyncio.sleep(max(0.01, wake - now))


def _new_visit(rng: random.Random, now: float) -> list[_Request]:
    """The requests of somebody who comes now."""
    browser, lead = BROWSERS.pick(rng), LEADS.pick(rng)
    visit = _Visit(f"demo-{rng.getrandbits(64):016x}", browser, lead)
    steps = plan_visit(rng, lead.entry, is_phone=browser.device == "Mobile")
    return [
        _Request(now + request[-1].at_ms / 1000, number, visit, request)
        for number, request in enumerate(in_requests(steps, MOST_EVENTS, _TOGETHER_MS))
    ]


def _events(request: _Request, rng: random.Random, now: datetime) -> list[dict[str, Any]]:
    """The events of the body; the last one happens at `now`."""
    last_ms = request.steps[-1].at_ms
    events = []
    for number, step in enumerate(request.steps):
        event: dict[str, Any] = {
            "id": str(UUID(int=rng.getrandbits(128), version=4)),
            "type": "event" if step.name else "pageview",
            "path": step.path,
            "occurred_at": format_time(now - timedelta(milliseconds=last_ms - step.at_ms)),
            "visitor": request.visit.visitor,
        }
        if request.visit.browser.says_tablet:
            event["device"] = "Tablet"
        if step.name:
            event["properties"] = step.properties(f"v5-{rng.getrandbits(52)}")
        elif number == request.number == 0:
            lead = request.visit.lead
            told = {
                "referrer_host": lead.referrer_host,
                "utm_source": lead.utm_source,
                "utm_medium": lead.utm_medium,
                "utm_campaign": lead.utm_campaign,
            }
            event |= {name: value for name, value in told.items() if value}
        events.append(event)
    return events


async def _post(
    session: aiohttp.ClientSession, url: str, origin: str, request: _Request, rng: random.Random
) -> str | None:
    """Why the request was not taken; None when it was."""
    headers = {
        "Origin": origin,
        "Content-Type": "text/plain",
        "User-Agent": request.visit.browser.user_agent,
    }
    body = orjson.dumps({"events": _events(request, rng, datetime.now(UTC))})
    try:
        async with session.post(url, data=body, headers=headers) as response:
            await response.read()
            return None if response.status == 202 else f"status {response.status}"
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return type(error).__name__
