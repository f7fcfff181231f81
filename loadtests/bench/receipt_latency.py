"""Measures the time from the 202 for a batch until its receipt is `stored`, at the default rate limit of an account."""

import asyncio
import time

from loadtests.bench.figures import Figure, latency_figures
from loadtests.bench.ingest_requests import ingest_requests
from loadtests.bench.load import running_load
from loadtests.bench.measured_load import failure_figure
from loadtests.bench.payloads import make_bodies, number_body
from loadtests.bench.platform_process import Platform
from loadtests.bench.progress import Progress
from loadtests.bench.run_length import RunLength

_BATCH_EVENTS = 100
_EVENTS_PER_SECOND = 5000
_CONNECTIONS = 16
_SAMPLERS = 4
# Seconds between two reads of a receipt. Reads cost the platform CPU time, so the value is a compromise between
# precision and additional load.
_POLL_SECONDS = 0.04
# The batches whose receipts are read have numbers from here on. No other batch has such a number.
_FIRST_SAMPLE = 5 * 10**9


async def measure_receipts(
    progress: Progress, length: RunLength, platform: Platform, first: int
) -> list[Figure]:
    """Return the p50 and the p99 of the time from a 202 to `stored` over HTTP, to about 0.04 s. The batches for the
    load are numbered from `first`."""
    part = f"receipts at {_EVENTS_PER_SECOND:,} events/s"
    seconds: list[float] = []
    async with running_load(
        platform.port,
        ingest_requests(platform.ingest_key, _BATCH_EVENTS),
        connections=_CONNECTIONS,
        expected=202,
        first=first,
        per_second=_EVENTS_PER_SECOND / _BATCH_EVENTS,
    ) as load:
        await progress.pass_time(f"{part}: warming up", length.warm_up)
        load.latencies.clear()
        end = time.monotonic() + length.receipt_seconds
        sampling = asyncio.gather(*(_sample(platform, n, end, seconds) for n in range(_SAMPLERS)))
        await progress.pass_time(f"{part}: measuring", length.receipt_seconds)
        await sampling
        return [
            Figure(part, "sampled batches", len(seconds), ""),
            *latency_figures(part, "202 to stored", seconds),
            *latency_figures(part, "request", load.latencies),
            failure_figure(part, dict(load.failures)),
        ]


async def _sample(platform: Platform, sampler: int, end: float, seconds: list[float]) -> None:
    (body,) = make_bodies(1, _BATCH_EVENTS, seed=sampler)
    number = _FIRST_SAMPLE + sampler * 10**6
    # Start the samplers at different times, so that not all samples are in the same chunks.
    await asyncio.sleep(0.15 * sampler)
    while time.monotonic() < end:
        number += 1
        async with platform.http.post(
            "/api/v1/ingest", data=number_body(body, number), headers={"Content-Type": "application/json"}
        ) as response:
            response.raise_for_status()
            url = (await response.json())["data"]["url"]
        accepted = time.perf_counter()
        await _wait_until_stored(platform, url)
        seconds.append(time.perf_counter() - accepted)


async def _wait_until_stored(platform: Platform, url: str) -> None:
    while True:
        async with platform.http.get(url) as response:
            response.raise_for_status()
            if (await response.json())["data"]["status"] == "stored":
                return
        await asyncio.sleep(_POLL_SECONDS)
