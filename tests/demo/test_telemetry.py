"""The telemetry of `pharos up --demo`."""

import asyncio
import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from aiohttp import web

from demo import telemetry
from demo.telemetry import DemoShop, expected_rate, send_demo_telemetry
from ingest_edge.decoders.telemetry import decode_batch
from ingest_edge.limits import Limits
from pipeline_contracts.settings import Settings

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
SECONDS = 900


def seconds_of(seed: int, count: int = SECONDS) -> list[list[dict[str, Any]]]:
    shop = DemoShop(random.Random(seed))
    return [shop.events_of_second(NOON + timedelta(seconds=n)) for n in range(count)]


@pytest.fixture(scope="module")
def seconds() -> list[list[dict[str, Any]]]:
    return seconds_of(1)


def test_edge_accepts_the_events_of_every_second(seconds: list[list[dict[str, Any]]]) -> None:
    limits = Limits.from_settings(Settings())
    for events in seconds:
        batch, _ = decode_batch(orjson.dumps({"batch_id": "b", "events": events}), limits)
        assert len(batch.events) == len(events)


def test_the_same_seed_gives_the_same_events(seconds: list[list[dict[str, Any]]]) -> None:
    assert seconds_of(1, 200) == seconds[:200]
    assert seconds_of(2, 200) != seconds[:200]


def test_all_types_occur_at_a_realistic_rate(seconds: list[list[dict[str, Any]]]) -> None:
    assert 20 <= sum(map(len, seconds)) / SECONDS <= 60
    assert {event["type"] for events in seconds for event in events} == {
        "request",
        "query",
        "job",
        "exception",
        "log",
        "metric",
    }
    assert len({event["id"] for events in seconds for event in events}) == sum(map(len, seconds))


def test_queries_and_exceptions_share_the_trace_of_their_request(
    seconds: list[list[dict[str, Any]]],
) -> None:
    requests: dict[str, dict[str, Any]] = {}
    children = defaultdict(list)
    for event in (event for events in seconds for event in events):
        if event["type"] == "request":
            requests[event["trace_id"]] = event
        elif event["type"] in ("query", "exception"):
            children[event["trace_id"]].append(event)
    assert set(children) == set(requests)
    for trace, events in children.items():
        assert {event["parent_span_id"] for event in events} == {requests[trace]["span_id"]}
        failed = [event for event in events if event["type"] == "exception"]
        assert bool(failed) == (requests[trace]["status_code"] == 500)
        assert all(event["fingerprint"] and "Traceback" in event["details"] for event in failed)


def test_errors_occur_in_bursts(seconds: list[list[dict[str, Any]]]) -> None:
    failed = [sum(event["type"] == "exception" for event in events) for events in seconds]
    rates = sorted(sum(failed[n : n + 10]) for n in range(0, SECONDS, 10))
    assert rates[0] <= 1
    assert rates[-1] >= 10


def test_afternoon_is_busier_than_night() -> None:
    assert expected_rate(NOON.replace(hour=15)) > 1.8 * expected_rate(NOON.replace(hour=3))


async def test_sending_survives_errors_and_an_unavailable_server(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def note_wait(seconds: float) -> None:
        waits.append(seconds)
        await asyncio.sleep(0)

    # The machine may stand still for longer than the demo waits.
    monkeypatch.setattr(telemetry, "_TIMEOUT_SECONDS", 120.0)
    # Not the sleep of the whole process: others may sleep in this loop, too.
    monkeypatch.setattr(telemetry, "asyncio", SimpleNamespace(sleep=note_wait))
    batch_ids: list[str] = []
    enough = asyncio.Event()

    async def ingest(request: web.Request) -> web.StreamResponse:
        assert request.headers["Authorization"] == "Bearer the-key"
        batch_ids.append((await request.json())["batch_id"])
        if len(batch_ids) == 2:
            return web.Response(status=503)
        if len(batch_ids) == 3:
            assert request.transport is not None
            request.transport.abort()
        if len(batch_ids) == 5:
            enough.set()
        return web.json_response({}, status=202)

    app = web.Application()
    app.router.add_post("/api/v1/ingest", ingest)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    sending = asyncio.create_task(
        send_demo_telemetry(f"http://127.0.0.1:{runner.addresses[0][1]}/api", "the-key")
    )
    try:
        await enough.wait()
    finally:
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await runner.cleanup()
    assert len(set(batch_ids)) == len(batch_ids)
    assert waits[0] == 1.0
    assert 1.0 <= waits[1] <= 2.0 <= waits[2] <= 4.0
    assert waits[3] == 1.0
