"""Measures OTLP and heartbeats: the cost per record for the edge (for each signal and encoding) and for the consumer,
and ClickHouse's part of it."""

import asyncio
import time

from loadtests.bench.consumer import run_consumer, us_a_row
from loadtests.bench.edge import EMBEDDED, fresh_edge, measure_requests
from loadtests.bench.edge_process import HEARTBEAT
from loadtests.bench.figures import Figure, latency_figures
from loadtests.bench.ingest_requests import heartbeat_requests, otlp_requests
from loadtests.bench.load import running_load
from loadtests.bench.otlp_payloads import RECORDS
from loadtests.bench.process_usage import cpu_seconds, peak_mb
from loadtests.bench.progress import Progress
from loadtests.bench.run_length import RunLength

_CONNECTIONS = 32
_HEARTBEAT_CONNECTIONS = 64
_EDGE_TARGET_US = 4.0
_CONSUMER_TARGET_US = 8.0
_HEARTBEAT_TARGET_US = 75.0
_BURST = 10_000
_NAMES = {"traces": "span", "logs": "log record", "metrics": "data point"}


async def measure_otlp_edge(progress: Progress, length: RunLength) -> list[Figure]:
    """Measure the edge with 100 records per request, in protobuf and in JSON."""
    figures = []
    for signal, name in _NAMES.items():
        for coding in ("json", "protobuf"):
            part = f"edge, {RECORDS} {name}s a request, {coding}"
            async with fresh_edge(EMBEDDED) as edge:
                requests = otlp_requests(edge.ingest_key, signal, coding)
                measured = await measure_requests(
                    progress, part, edge, requests, _CONNECTIONS, length, expected=200
                )
                peak = peak_mb(edge.pid)
            figures += [
                Figure(part, f"{name}s", measured.per_second * RECORDS, "/s"),
                Figure(part, f"CPU a {name}", measured.cpu_us / RECORDS, "µs", target=_target(coding)),
                *measured.latency(part),
                Figure(part, "peak memory", peak, "MB"),
            ]
    return figures


def _target(coding: str) -> float | None:
    return _EDGE_TARGET_US if coding == "json" else None


async def measure_otlp_consumer(progress: Progress, length: RunLength) -> list[Figure]:
    """Measure the consumer with JSON bodies, from the log to the insert, and ClickHouse's part of the cost of a row."""
    figures = []
    for signal, name in _NAMES.items():
        for coding in ("json", "protobuf"):
            part = f"consumer of {name}s, {coding}"
            report = await run_consumer(progress, part, length, "nothing", transform=signal, coding=coding)
            target = _CONSUMER_TARGET_US if coding == "json" else None
            figures += [
                Figure(part, f"{name}s", report["rows"] / report["seconds"], "/s"),
                Figure(part, f"CPU a {name}", us_a_row(report["cpu_seconds"], report), "µs", target=target),
                Figure(part, "peak memory", report["peak_mb"], "MB"),
            ]
        part = f"consumer of {name}s and ClickHouse"
        report = await run_consumer(progress, part, length, "clickhouse", transform=signal)
        inserting = us_a_row(report["cpu_seconds"] - report["consumer_cpu_seconds"], report)
        figures += [
            Figure(part, f"{name}s", report["rows"] / report["seconds"], "/s"),
            Figure(part, "CPU of ClickHouse a row", inserting, "µs"),
            Figure(part, "peak memory", report["peak_mb"], "MB"),
        ]
    return figures


async def measure_heartbeats(progress: Progress, length: RunLength) -> list[Figure]:
    """Measure the edge with one signal per request. Also measure the top of the hour: an idle edge receives 10,000
    signals within one second."""
    part = "edge, heartbeats"
    async with fresh_edge(EMBEDDED) as edge:
        requests = heartbeat_requests(edge.monitor_key, HEARTBEAT)
        measured = await measure_requests(progress, part, edge, requests, _HEARTBEAT_CONNECTIONS, length)
        peak = peak_mb(edge.pid)
    return [
        Figure(part, "heartbeats", measured.per_second, "/s"),
        Figure(part, "CPU a heartbeat", measured.cpu_us, "µs", target=_HEARTBEAT_TARGET_US),
        *measured.latency(part),
        Figure(part, "peak memory", peak, "MB"),
        *await _measure_burst(progress),
    ]


async def _measure_burst(progress: Progress) -> list[Figure]:
    part = f"edge, {_BURST:,} heartbeats in one second"
    async with fresh_edge(EMBEDDED) as edge:
        requests = heartbeat_requests(edge.monitor_key, HEARTBEAT)
        begun, cpu = time.perf_counter(), cpu_seconds(edge.pid)
        with progress.step(part, None):
            async with running_load(
                edge.port,
                requests,
                connections=_HEARTBEAT_CONNECTIONS,
                expected=202,
                limit=_BURST,
                per_second=_BURST,
            ) as load:
                async with asyncio.timeout(30):
                    while load.answered + sum(load.failures.values()) < _BURST:  # noqa: ASYNC110 (there is no event to await)
                        await asyncio.sleep(0.005)
        took = time.perf_counter() - begun
        used = cpu_seconds(edge.pid) - cpu
    return [
        Figure(part, "answered with 202", load.answered, "", target=_BURST, bound="at_least"),
        Figure(part, "until the last answer", took, "s"),
        Figure(part, "CPU of the edge", used, "s"),
        *latency_figures(part, "request", load.latencies),
    ]
