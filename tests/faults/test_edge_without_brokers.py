"""An edge whose brokers are gone, under many clients: its memory stays bounded, and it recovers by itself."""

import asyncio
import os
import signal
import time
from collections import Counter
from pathlib import Path

import aiohttp
import psutil
import pytest

from loadtests.bench.payloads import make_bodies, number_body
from loadtests.faults.tour import SETTINGS
from loadtests.stack.stack import Stack, running_stack
from tests.support.engines import or_skip

_CLIENTS = int(os.environ.get("PHAROS_TEST_FLOOD_CLIENTS", "200"))
_SECONDS = float(os.environ.get("PHAROS_TEST_FLOOD_SECONDS", "15"))
_MB = 2**20


@pytest.mark.timeout(900)
async def test_memory_stays_bounded_and_the_edge_recovers(tmp_path: Path) -> None:
    with or_skip(running_stack(tmp_path, edges=1, consumers=1, settings=SETTINGS)) as stack:
        edge = psutil.Process(stack.edges[0].pid)
        await flood(stack, 2.0)
        before = edge.memory_info().rss
        stack.kafka.stop(signal.SIGKILL)
        peak = 0
        flooding = asyncio.create_task(flood(stack, _SECONDS))
        while not flooding.done():
            peak = max(peak, edge.memory_info().rss)
            await asyncio.sleep(0.1)
        answers = await flooding
        print(
            f"{_CLIENTS} clients for {_SECONDS:.0f} s without the broker: {dict(answers)}; "
            f"memory {before / _MB:.0f} MB before, {peak / _MB:.0f} MB at most"
        )
        # No 202 without the brokers: one would be a promise that nobody has kept.
        assert set(answers) <= {503, "no answer"}
        assert peak < 400 * _MB
        began = time.monotonic()
        # Once nobody has sent anything for a moment, it has no reason to say that it is stalled.
        while stack.edges[0].is_ready():
            assert time.monotonic() < began + 60
            await flood(stack, 1.0)
        await asyncio.to_thread(stack.kafka.start)
        began = time.monotonic()
        while (await flood(stack, 0.5)).get(202, 0) == 0:
            assert time.monotonic() < began + 180
        while not stack.edges[0].is_ready():
            assert time.monotonic() < began + 180
            await asyncio.sleep(0.1)
        print(f"ready again {time.monotonic() - began:.1f} s after the broker")


async def flood(stack: Stack, seconds: float) -> Counter[int | str]:
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
        await asyncio.gather(*(send(session, client) for client in range(_CLIENTS)))
    return answers
