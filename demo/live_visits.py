"""Simulates current visitors of the demo shop: posts the events that their trackers would send."""

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

from demo.audience import BROWSERS, TRAFFIC_SOURCES, Browser, TrafficSource
from demo.journeys import Step, group_into_requests, plan_visit
from pipeline_contracts.collected import MAX_EVENTS
from pipeline_contracts.times import format_time

logger = logging.getLogger(__name__)

# A visit has about five events.
_VISITS_A_SECOND = 0.05
_REQUEST_SPAN_MS = 1_000
_TIMEOUT_SECONDS = 10.0
# No new visits start while this many requests are pending, as when the platform hangs.
_MAX_PENDING = 300


@dataclass(frozen=True, slots=True)
class _Visit:
    visitor: str
    browser: Browser
    source: TrafficSource


@dataclass(order=True, slots=True)
class _Request:
    """A request that a visitor sends at `due`, seconds of the monotonic clock."""

    due: float
    number: int
    """Position of the request in its visit."""
    visit: _Visit = field(compare=False)
    steps: list[Step] = field(compare=False)


async def post_live_visits(base_url: str, tracker_id: str, origin: str) -> None:
    """Post the visitors' events to `base_url` (which ends in `/api`), one or two a second, until cancelled.

    `origin` is the origin of the shop. Failed requests are dropped, with one warning until a request succeeds again.
    Raises only `CancelledError`.
    """
    rng = random.Random()
    url = f"{base_url}/v1/collect/{tracker_id}"
    pending: list[_Request] = []
    next_visit = monotonic()
    failing = False
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session:
        while True:
            now = monotonic()
            if now >= next_visit:
                next_visit = now + rng.expovariate(_VISITS_A_SECOND)
                if len(pending) < _MAX_PENDING:
                    for request in _new_visit(rng, now):
                        heapq.heappush(pending, request)
            if pending and pending[0].due <= now:
                fault = await _post(session, url, origin, heapq.heappop(pending), rng)
                if fault is not None and not failing:
                    logger.warning("demo page views are not accepted (%s); retrying", fault)
                failing = fault is not None
                continue
            wake = min(next_visit, pending[0].due) if pending else next_visit
            await asyncio.sleep(max(0.01, wake - now))


def _new_visit(rng: random.Random, now: float) -> list[_Request]:
    """Return the requests of a visit that starts now."""
    browser, source = BROWSERS.pick(rng), TRAFFIC_SOURCES.pick(rng)
    visit = _Visit(f"demo-{rng.getrandbits(64):016x}", browser, source)
    steps = plan_visit(rng, source.entry, is_phone=browser.device == "Mobile")
    return [
        _Request(now + request[-1].at_ms / 1000, number, visit, request)
        for number, request in enumerate(group_into_requests(steps, MAX_EVENTS, _REQUEST_SPAN_MS))
    ]


def _events(request: _Request, rng: random.Random, now: datetime) -> list[dict[str, Any]]:
    """Return the events of the body; the last one occurs at `now`."""
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
        if request.visit.browser.reports_tablet:
            event["device"] = "Tablet"
        if step.name:
            event["properties"] = step.properties(f"v5-{rng.getrandbits(52)}")
        elif number == request.number == 0:
            source = request.visit.source
            fields = {
                "referrer_host": source.referrer_host,
                "utm_source": source.utm_source,
                "utm_medium": source.utm_medium,
                "utm_campaign": source.utm_campaign,
            }
            event |= {name: value for name, value in fields.items() if value}
        events.append(event)
    return events


async def _post(
    session: aiohttp.ClientSession, url: str, origin: str, request: _Request, rng: random.Random
) -> str | None:
    """Return the reason why the request failed; None if it was accepted."""
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
