"""Sends the past and the live traffic of the demo shop to the ingest endpoints."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from demo.api_client import ApiClient, ApiRefused
from demo.traffic.jobs import Jobs
from demo.traffic.metrics import Metrics
from demo.traffic.otlp import write_logs, write_metrics, write_traces
from demo.traffic.rhythm import SLICE_SECONDS
from demo.traffic.spans import Records, Traffic

logger = logging.getLogger(__name__)

BLOCK_SECONDS = 1200
"""Past traffic is sent in blocks of this length."""
_METRICS_SECONDS = 60
_PAST_METRICS_SECONDS = 300
_MAX_WAIT_SECONDS = 30.0
_MAX_EVENTS = 1000
# Traffic of a longer gap is skipped: the machine was suspended.
_MAX_BEHIND_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Sources:
    """The generators of the traffic, and a function that returns the version of the shop at a time in seconds since
    1970."""

    traffic: Traffic
    jobs: Jobs
    metrics: Metrics
    version_at: Callable[[float], str]


async def send_block(client: ApiClient, sources: Sources, begin_s: int) -> None:
    """Send the traffic of the block from `begin_s` on. Raises `ApiRefused`, `aiohttp.ClientError` and `TimeoutError`.

    Events of the ingest API are stored once, however often the block is sent; OTLP records are stored each time.
    """
    records, events = Records(), []
    metrics: dict[str, list[dict[str, Any]]] = {}
    for at_s in range(begin_s, begin_s + BLOCK_SECONDS, SLICE_SECONDS):
        sources.traffic.add_slice(records, at_s)
        events += sources.jobs.list_slice(at_s)
        if at_s % _PAST_METRICS_SECONDS == 0:
            for service, measured in sources.metrics.measure(at_s, _PAST_METRICS_SECONDS).items():
                metrics.setdefault(service, []).extend(measured)
        # Let the platform handle requests in between.
        await asyncio.sleep(0)
    version = sources.version_at(begin_s)
    await _send(client, records, version)
    await client.post("/v1/otlp/v1/metrics", write_metrics(metrics, version))
    await _send_events(client, f"demo-block-{begin_s}", events)


async def send_live_traffic(client: ApiClient, sources: Sources, from_s: int) -> None:
    """Send the traffic of each slice after its end, from `from_s` on, until cancelled.

    Failed requests are followed by a pause of up to 30 s. Raises only `CancelledError`.
    """
    at_s = from_s // SLICE_SECONDS * SLICE_SECONDS
    failures = 0
    while True:
        now = time.time()
        if now - at_s > _MAX_BEHIND_SECONDS:
            at_s = int(now) // SLICE_SECONDS * SLICE_SECONDS
        # Requests of the slice may end after it.
        await asyncio.sleep(max(0.0, at_s + SLICE_SECONDS + 1 - now))
        try:
            await _send_slice(client, sources, at_s)
            at_s += SLICE_SECONDS
            failures = 0
        except (ApiRefused, aiohttp.ClientError, TimeoutError, OSError) as error:
            failures += 1
            wait = min(_MAX_WAIT_SECONDS, 2.0 ** min(failures, 10))
            logger.warning(
                "demo telemetry was not accepted (%s); continuing in %.0f s", type(error).__name__, wait
            )
            await asyncio.sleep(wait)


async def _send_slice(client: ApiClient, sources: Sources, at_s: int) -> None:
    records = Records()
    sources.traffic.add_slice(records, at_s)
    version = sources.version_at(at_s)
    await _send(client, records, version)
    if at_s % _METRICS_SECONDS == 0:
        measured = sources.metrics.measure(at_s, _METRICS_SECONDS)
        await client.post("/v1/otlp/v1/metrics", write_metrics(measured, version))
    await _send_events(client, f"demo-slice-{at_s}", sources.jobs.list_slice(at_s))


async def _send(client: ApiClient, records: Records, version: str) -> None:
    if records.spans:
        await client.post("/v1/otlp/v1/traces", write_traces(records.spans, version))
    if records.logs:
        await client.post("/v1/otlp/v1/logs", write_logs(records.logs, version))


async def _send_events(client: ApiClient, name: str, events: Sequence[dict[str, Any]]) -> None:
    for first in range(0, len(events), _MAX_EVENTS):
        batch = {"batch_id": f"{name}-{first}", "events": events[first : first + _MAX_EVENTS]}
        await client.post("/v1/ingest", batch)
