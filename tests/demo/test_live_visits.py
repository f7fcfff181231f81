"""The simulated current visitors of the demo."""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import orjson
import pytest
from aiohttp import web

from demo import live_visits
from demo.live_visits import post_live_visits
from pipeline_contracts.collected import MAX_EVENTS, SentEvent

ORIGIN = "http://127.0.0.1:8080"
ENOUGH = 400


@dataclass
class Clock:
    """A clock that advances only in `sleep`."""

    seconds: float = 0.0

    def now(self) -> float:
        return self.seconds


@dataclass
class Recorder:
    """Records collect requests; `answer` returns the status of the n-th."""

    answer: Callable[[int], int] = lambda number: 202
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    times: list[datetime] = field(default_factory=list)
    enough: asyncio.Event = field(default_factory=asyncio.Event)

    async def collect(self, request: web.Request) -> web.Response:
        body = orjson.loads(await request.read())
        # Do this without a wait in between, because the last request may be aborted while its body is read.
        self.headers.append(dict(request.headers))
        self.bodies.append(body)
        self.times.append(datetime.now(UTC))
        if len(self.bodies) >= ENOUGH:
            self.enough.set()
        return web.Response(status=self.answer(len(self.bodies)))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()

    async def pass_time(seconds: float) -> None:
        clock.seconds += seconds
        await asyncio.sleep(0)

    monkeypatch.setattr(live_visits, "monotonic", clock.now)
    # The machine may pause for longer than visitors wait.
    monkeypatch.setattr(live_visits, "_TIMEOUT_SECONDS", 120.0)
    # Replace only this module's sleep, because other tasks may sleep in this loop too.
    monkeypatch.setattr(live_visits, "asyncio", SimpleNamespace(sleep=pass_time))
    return clock


@asynccontextmanager
async def browsing(recorder: Recorder) -> AsyncIterator[None]:
    """Run the visitors until the recorder has enough requests."""
    app = web.Application()
    app.router.add_post("/api/v1/collect/the-site", recorder.collect)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    base_url = f"http://127.0.0.1:{runner.addresses[0][1]}/api"
    working = asyncio.create_task(post_live_visits(base_url, "the-site", ORIGIN))
    try:
        reached = asyncio.create_task(recorder.enough.wait())
        await asyncio.wait([working, reached], return_when=asyncio.FIRST_COMPLETED)
        assert not working.done()
        yield
    finally:
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working
        assert working.cancelled()
        await runner.cleanup()


async def test_visitors_post_valid_events(clock: Clock) -> None:
    recorder = Recorder()
    async with browsing(recorder):
        pass
    events = []
    agents = defaultdict(set)
    for headers, body, received in zip(recorder.headers, recorder.bodies, recorder.times, strict=True):
        assert headers["Origin"] == ORIGIN
        assert headers["Content-Type"].startswith("text/plain")
        assert "Mozilla" in headers["User-Agent"] and "Cookie" not in headers
        assert 1 <= len(body["events"]) <= MAX_EVENTS
        for one in body["events"]:
            event = msgspec.convert(one, SentEvent)
            assert event.visitor is not None and event.occurred_at is not None
            assert timedelta(0) <= received - event.occurred_at < timedelta(minutes=2)
            assert (event.type == "event") == bool(event.properties and event.properties["name"])
            agents[event.visitor].add(headers["User-Agent"])
            events.append(event)
    assert len({event.id for event in events}) == len(events)
    assert {len(of_visitor) for of_visitor in agents.values()} == {1}
    assert len({agent for of_visitor in agents.values() for agent in of_visitor}) > 5
    # Only the first page view of a visit has a source.
    told = Counter(event.visitor for event in events if event.referrer_host or event.utm_source)
    assert told and set(told.values()) == {1}
    first = {event.visitor: event for event in reversed(events)}
    assert all(event.type == "pageview" for event in first.values())
    names = {event.properties["name"] for event in events if event.properties}
    assert {"Engagement", "Web Vital"} <= names
    assert 0.1 < len(events) / clock.seconds < 0.6


async def test_failures_are_logged_once(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    recorder = Recorder(answer=lambda number: 503 if number % 200 < 100 else 202)
    with caplog.at_level(logging.WARNING, logger="demo.live_visits"):
        async with browsing(recorder):
            pass
    messages = [record.getMessage() for record in caplog.records if record.name == "demo.live_visits"]
    # Requests 1-99 and 200-299 fail, and so does the last one.
    assert 2 <= len(messages) <= 3
    assert all("status 503" in message for message in messages)


async def test_visits_continue_while_platform_is_unavailable(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="demo.live_visits"):
        working = asyncio.create_task(post_live_visits("http://127.0.0.1:1/api", "the-site", ORIGIN))
        async with asyncio.timeout(60):
            while clock.seconds < 60:
                await asyncio.sleep(0)
        assert not working.done()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
    assert len([record for record in caplog.records if record.name == "demo.live_visits"]) == 1
