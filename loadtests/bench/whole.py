"""Measures the whole platform as one process: its start, its idle state, many events until all are stored,
receipts, and the control plane."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from loadtests.bench.child_process import ChildFailed
from loadtests.bench.control import measure_control
from loadtests.bench.figures import Figure, latency_figures
from loadtests.bench.ingest_requests import ingest_requests
from loadtests.bench.load import Load, running_load
from loadtests.bench.measured_load import failure_figure
from loadtests.bench.platform_process import Platform, running_platform
from loadtests.bench.process_usage import cpu_seconds, forget_peak, peak_mb, resident_mb
from loadtests.bench.progress import Progress
from loadtests.bench.receipt_latency import measure_receipts
from loadtests.bench.run_length import RunLength

_PART = "whole platform"
_BATCH_EVENTS = 100
_CONNECTIONS = 32
_REST_TARGET_MB = 450.0
_STORE_SECONDS = 600.0
_POLL_SECONDS = 0.1
_STORED = "SELECT count() AS rows, uniqExact(id) AS events FROM pharos.telemetry_events"
# The query returns how long each batch has waited, by the times of the edge and of the insert.
_WAITS = (
    "SELECT quantilesExact(0.5, 0.99)(toUnixTimestamp64Milli(stored_at) - toUnixTimestamp64Milli(received_at)) "
    "AS milliseconds FROM pharos.ingest_receipts"
)


@dataclass(frozen=True, slots=True)
class _Flood:
    to_accepted: float
    to_stored: float
    cpu_seconds: float
    latencies: list[float]
    failures: dict[str, int]


async def measure_whole(progress: Progress, length: RunLength) -> list[Figure]:
    """Return the figures of `pharos up` on an empty folder, and of its control plane once the table of events
    is filled."""
    async with running_platform() as platform:
        return [
            Figure(_PART, "start to ready", platform.seconds_to_ready, "s"),
            *await _measure_rest(progress, length, platform),
            *await _measure_flood(progress, length, platform),
            *await measure_receipts(progress, length, platform, length.whole_events // _BATCH_EVENTS),
            *await measure_control(progress, length, platform),
        ]


async def _measure_rest(progress: Progress, length: RunLength, platform: Platform) -> list[Figure]:
    cpu = cpu_seconds(platform.pid)
    await progress.pass_time("at rest", length.idle_seconds)
    share = 100 * (cpu_seconds(platform.pid) - cpu) / length.idle_seconds
    return [
        Figure(_PART, "memory at rest", resident_mb(platform.pid), "MB", target=_REST_TARGET_MB),
        Figure(_PART, "CPU at rest", share, "% of a core"),
    ]


async def _measure_flood(progress: Progress, length: RunLength, platform: Platform) -> list[Figure]:
    events = length.whole_events
    forget_peak(platform.pid)
    flood = await _flood(progress, platform, events)
    peak = peak_mb(platform.pid)
    stored = await platform.query(_STORED)
    waits = (await platform.query(_WAITS))["milliseconds"]
    return [
        Figure(_PART, "events sent", events, ""),
        Figure(_PART, "events to their 202", events / flood.to_accepted, "/s"),
        Figure(_PART, "events to stored", events / flood.to_stored, "/s"),
        Figure(_PART, "CPU an event", 1e6 * flood.cpu_seconds / events, "µs"),
        *latency_figures(_PART, "request", flood.latencies),
        Figure(_PART, "received to stored in the flood, p50", waits[0] / 1000, "s"),
        Figure(_PART, "received to stored in the flood, p99", waits[1] / 1000, "s"),
        Figure(_PART, "peak memory in the flood", peak, "MB"),
        failure_figure(_PART, flood.failures),
        Figure(_PART, "events not stored", events - int(stored["events"]), "", target=0),
        Figure(_PART, "events stored twice", int(stored["rows"]) - int(stored["events"]), "", target=0),
    ]


async def _flood(progress: Progress, platform: Platform, events: int) -> _Flood:
    requests = ingest_requests(platform.ingest_key, _BATCH_EVENTS)
    cpu, begun = cpu_seconds(platform.pid), time.perf_counter()
    async with running_load(
        platform.port,
        requests,
        connections=_CONNECTIONS,
        expected=202,
        limit=events // _BATCH_EVENTS,
    ) as load:
        with progress.step(f"{events:,} events to their 202", events) as report_progress:
            await _wait_for_answers(load, report_progress)
        accepted = time.perf_counter()
    with progress.step(f"{events:,} events to stored", events) as report_progress:
        await _wait_until_stored(platform, load.answered * _BATCH_EVENTS, report_progress)
    return _Flood(
        accepted - begun,
        time.perf_counter() - begun,
        cpu_seconds(platform.pid) - cpu,
        load.latencies,
        dict(load.failures),
    )


async def _wait_for_answers(load: Load, report_progress: Callable[[float], None]) -> None:
    while not load.all_answered.is_set():
        report_progress(load.answered * _BATCH_EVENTS)
        try:
            await asyncio.wait_for(load.all_answered.wait(), _POLL_SECONDS)
        except TimeoutError:
            continue


async def _wait_until_stored(
    platform: Platform, events: int, report_progress: Callable[[float], None]
) -> None:
    # Reading the counter costs the platform less than a query.
    deadline = time.monotonic() + _STORE_SECONDS
    while (stored := await platform.stored_events()) < events:
        if time.monotonic() > deadline:
            raise ChildFailed(f"Only {stored:.0f} of {events} events were stored in {_STORE_SECONDS:.0f} s.")
        report_progress(stored)
        await asyncio.sleep(_POLL_SECONDS)
