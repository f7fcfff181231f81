"""An edge whose brokers are gone, under many clients: its memory stays bounded, and it recovers by itself."""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import aiohttp
import psutil
import pytest

from loadtests.bench.payloads import make_bodies, number_body
from loadtests.faults.tour import SETTINGS
from loadtests.stack import parts
from loadtests.stack.stack import Stack, running_stack
from tests.support import fork_server
from tests.support.engines import or_skip

_MB = 2**20
# So small that a short flood fills it.
_SETTINGS = {**SETTINGS, "PHAROS_KAFKA_BUFFER_BYTES": str(8 * _MB)}


# The long flood is for leaks that are too slow for the short one.
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("clients", "seconds", "settings"),
    [(50, 3.0, _SETTINGS), pytest.param(200, 15.0, SETTINGS, marks=pytest.mark.full)],
    ids=["short", "long"],
)
async def test_memory_stays_bounded_and_the_edge_recovers(
    tmp_path: Path,
    clients: int,
    seconds: float,
    settings: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parts, "_popen", fork_server.popen)
    with or_skip(running_stack(tmp_path, edges=1, consumers=1, settings=settings)) as stack:
        edge = psutil.Process(stack.edges[0].pid)
        await flood(stack, clients, seconds / 8)
        before = edge.memory_info().rss
        stack.kafka.stop(signal.SIGKILL)
        peak = 0
        flooding = asyncio.create_task(flood(stack, clients, seconds))
        while not flooding.done():
            peak = max(peak, edge.memory_info().rss)
            await asyncio.sleep(0.1)
        answers = await flooding
        print(
            f"{clients} clients for {seconds:.0f} s without the broker: {dict(answers)}; "
            f"memory {before / _MB:.0f} MB before, {peak / _MB:.0f} MB at most"
        )
        # No 202 without the brokers: one would be a promise that nobody has kept.
        assert set(answers) <= {503, "no answer"}
        assert peak < 400 * _MB
        began = time.monotonic()
        # Once nobody has sent anything for a moment, it has no reason to say that it is stalled.
        while stack.edges[0].is_ready():
            assert time.monotonic() < began + 60
            await flood(stack, 5, 1.0)
        await asyncio.to_thread(stack.kafka.start)
        began = time.monotonic()
        while (await flood(stack, 5, 0.5)).get(202, 0) == 0:
            assert time.monotonic() < began + 180
        while not stack.edges[0].is_ready():
            assert time.monotonic() < began + 180
            await asyncio.sleep(0.1)
        print(f"ready again {time.monotonic() - began:.1f} s after the broker")


async def flood(stack: Stack, clients: int, seconds: float) -> Counter[int | str]:
    """Batches of 100 events from every client, again at once whatever is answered."""
    answers: Counter[int | str] = Counter()
    bodies = make_bodies(8, 100)
    until = time.monotonic() + seconds
    headers = {
        "Authorization": f"Bearer {stack.credentials['ingest_key']}",
        "Content-Type": "application/json",
    }
    timeout = aiohttp.ClientTimeout(total=60)
    connector = aiohttp.TCPConnector(limit=0)

    async def send(session: aiohttp.ClientSession, client: int) -> None:
        number = 0
        while time.monotonic() < until:
            number += 1
            body = number_body(bodies[client % 8], client * 10**6 + number)
            try:
                async with session.post(f"{stack.edges[0].url}/api/v1/ingest", data=body) as answer:
                    await answer.read()
                    answers[answer.status] += 1
            except (aiohttp.ClientError, TimeoutError):
                answers["no answer"] += 1
            # A client that is put off does not come back in the same millisecond.
            await asyncio.sleep(0.05)

    async with aiohttp.ClientSession(headers=headers, timeout=timeout, connector=connector) as session:
        await asyncio.gather(*(send(session, client) for client in range(clients)))
    return answers
