"""Sending of the demo's traffic."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from demo.api_client import ApiClient
from demo.traffic import send
from demo.traffic.faults import ReleaseTimes
from demo.traffic.jobs import Jobs
from demo.traffic.metrics import Metrics
from demo.traffic.rhythm import SLICE_SECONDS, Troubles
from demo.traffic.send import Sources, send_block, send_live_traffic
from demo.traffic.spans import Traffic

NOW = 1_769_600_000
TROUBLES = Troubles(NOW)
SOURCES = Sources(
    Traffic(1, TROUBLES, ReleaseTimes(0, 0)), Jobs(1, TROUBLES), Metrics(1, TROUBLES), lambda at_s: "1.0"
)


@asynccontextmanager
async def receiver(statuses: dict[int, int]) -> AsyncIterator[tuple[ApiClient, list[tuple[str, Any]]]]:
    """Serve the ingest endpoints; `statuses` are those of requests by their number."""
    received: list[tuple[str, Any]] = []

    async def take(request: web.Request) -> web.StreamResponse:
        assert request.headers["Authorization"] == "Bearer the-key"
        received.append((request.path.rpartition("/")[2], await request.json()))
        return web.json_response({}, status=statuses.get(len(received), 202))

    app = web.Application()
    app.router.add_post("/api/{path:.*}", take)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        async with aiohttp.ClientSession() as session:
            base = f"http://127.0.0.1:{runner.addresses[0][1]}/api"
            yield ApiClient(session, base, "the-key"), received
    finally:
        await runner.cleanup()


async def test_a_past_block_is_one_request_of_each_kind_and_named_by_its_time() -> None:
    begin = NOW - 7200
    async with receiver({}) as (client, received):
        await send_block(client, SOURCES, begin)
    assert [kind for kind, _ in received] == ["traces", "logs", "metrics", "ingest"]
    assert received[-1][1]["batch_id"] == f"demo-block-{begin}-0"


async def test_live_traffic_survives_refusals_and_repeats_the_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def note_wait(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.sleep(0)

    monkeypatch.setattr(send, "asyncio", SimpleNamespace(sleep=note_wait))
    monkeypatch.setattr(send, "time", SimpleNamespace(time=time.time))
    begin = int(time.time()) // SLICE_SECONDS * SLICE_SECONDS - 300
    async with receiver({1: 503, 2: 503}) as (client, received):
        sending = asyncio.create_task(send_live_traffic(client, SOURCES, begin))
        while len(received) < 20:
            await asyncio.sleep(0.01)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
    assert received[0] == received[1] == received[2]
    assert [wait for wait in waits if wait][:2] == [2.0, 4.0]
