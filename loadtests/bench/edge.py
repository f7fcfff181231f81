"""Measures the edge alone: with 100 events per request, with one event per request, with compressed bodies, and at
half of the maximum load."""

import json
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from loadtests.bench.child_process import running_child
from loadtests.bench.edge_process import KEYS_FILE
from loadtests.bench.figures import Figure
from loadtests.bench.ingest_requests import gzip_requests, ingest_requests
from loadtests.bench.load import MakeRequest
from loadtests.bench.measured_load import Measured, measure_load
from loadtests.bench.process_usage import peak_mb
from loadtests.bench.progress import Progress
from loadtests.bench.run_length import RunLength

_EVENTS = 100
_BATCH_CONNECTIONS = 32
_SINGLE_CONNECTIONS = 64


@dataclass(frozen=True, slots=True)
class Engines:
    """The engines on which the edge runs, and the targets for them. Without addresses, the edge uses the embedded
    engines."""

    label: str = "edge"
    bootstrap: str | None = None
    redis_url: str | None = None
    accelerator: str = "auto"
    """The accelerator: the value of the setting, or the folder that has the module for validating request bodies."""
    connections: int = 1
    """How many times the connections of the embedded edge are needed for full load."""
    batch_target_us: float = 3.0
    single_target_us: float = 90.0
    p99_target_ms: float | None = None
    memory_target_mb: float | None = None
    keys: int = 1
    """Number of ingest keys in the key directory."""
    accounts: int = 1
    """Number of accounts to which the keys belong."""
    monitors: int = 1
    """Number of heartbeats. Each has a key of its own."""


EMBEDDED = Engines()


def production(bootstrap: str, redis_url: str) -> Engines:
    """Return the engines Kafka and Redis. With them, each response waits for an additional round trip to the
    brokers."""
    return Engines(
        "edge on Kafka",
        bootstrap,
        redis_url,
        connections=4,
        batch_target_us=2.5,
        single_target_us=75.0,
        p99_target_ms=25.0,
        memory_target_mb=120.0,
    )


@dataclass(frozen=True, slots=True)
class Edge:
    """A running edge, and the keys that it accepts."""

    pid: int
    port: int
    ingest_keys: Sequence[str]
    monitor_keys: Sequence[str]
    """The keys of the heartbeats with the IDs 1, 2 and so on."""
    tracker_id: str

    @property
    def ingest_key(self) -> str:
        return self.ingest_keys[0]

    @property
    def monitor_key(self) -> str:
        return self.monitor_keys[0]


@asynccontextmanager
async def fresh_edge(engines: Engines) -> AsyncIterator[Edge]:
    """Run an edge in a process of its own within the context."""
    # Use a new log for each measurement: nothing consumes its records, and its disk space is freed between two
    # measurements.
    with tempfile.TemporaryDirectory(prefix="pharos-bench-") as folder:
        arguments = {
            "folder": folder,
            "bootstrap": engines.bootstrap,
            "redis_url": engines.redis_url,
            "accelerator": engines.accelerator,
            "keys": engines.keys,
            "accounts": engines.accounts,
            "monitors": engines.monitors,
        }
        async with running_child("edge_process", arguments) as child:
            report = await child.read()
            ingest_keys, monitor_keys = json.loads((Path(folder) / KEYS_FILE).read_text())
            yield Edge(child.pid, report["port"], ingest_keys, monitor_keys, report["tracker_id"])


async def measure_edge(progress: Progress, length: RunLength, engines: Engines = EMBEDDED) -> list[Figure]:
    """Measure requests with many events and with one event. The CPU time is that of the whole process, including the
    log's writer thread."""
    return [
        *await _measure_batches(progress, length, engines),
        *await _measure_single(progress, length, engines),
        *await _measure_gzip(progress, length, engines),
    ]


async def _measure_batches(progress: Progress, length: RunLength, engines: Engines) -> list[Figure]:
    part = f"{engines.label}, {_EVENTS} events a request"
    connections = _BATCH_CONNECTIONS * engines.connections
    async with fresh_edge(engines) as edge:
        requests = ingest_requests(edge.ingest_key, _EVENTS)
        measured = await measure_requests(progress, part, edge, requests, connections, length)
        peak = peak_mb(edge.pid)
    async with fresh_edge(engines) as edge:
        requests = ingest_requests(edge.ingest_key, _EVENTS)
        half = await measure_requests(
            progress, part, edge, requests, connections, length, measured.per_second / 2
        )
    return [
        *_batch_figures(part, measured, engines.batch_target_us),
        Figure(part, "peak memory", peak, "MB", target=engines.memory_target_mb),
        *_half_load_figures(part, half, engines),
    ]


async def _measure_single(progress: Progress, length: RunLength, engines: Engines) -> list[Figure]:
    part = f"{engines.label}, 1 event a request"
    connections = _SINGLE_CONNECTIONS * engines.connections
    async with fresh_edge(engines) as edge:
        requests = ingest_requests(edge.ingest_key, 1)
        measured = await measure_requests(progress, part, edge, requests, connections, length)
        peak = peak_mb(edge.pid)
    async with fresh_edge(engines) as edge:
        requests = ingest_requests(edge.ingest_key, 1)
        half = await measure_requests(
            progress, part, edge, requests, connections, length, measured.per_second / 2
        )
    return [
        Figure(part, "requests", measured.per_second, "/s"),
        Figure(part, "CPU a request", measured.cpu_us, "µs", target=engines.single_target_us),
        *measured.latency(part),
        Figure(part, "peak memory", peak, "MB", target=engines.memory_target_mb),
        *_half_load_figures(part, half, engines),
    ]


async def _measure_gzip(progress: Progress, length: RunLength, engines: Engines) -> list[Figure]:
    part = f"{engines.label}, {_EVENTS} events a request, gzip"
    connections = _BATCH_CONNECTIONS * engines.connections
    async with fresh_edge(engines) as edge:
        with progress.step(f"{part}: compressing", None):
            requests = gzip_requests(edge.ingest_key, _EVENTS)
        measured = await measure_requests(progress, part, edge, requests, connections, length)
        return [*_batch_figures(part, measured, None), Figure(part, "peak memory", peak_mb(edge.pid), "MB")]


async def measure_requests(
    progress: Progress,
    part: str,
    edge: Edge,
    requests: MakeRequest,
    connections: int,
    length: RunLength,
    per_second: float | None = None,
    expected: int = 202,
) -> Measured:
    """Send requests at full load, or `per_second` requests each second, and return the measured period."""
    return await measure_load(
        progress,
        part if per_second is None else f"{part}, half load",
        edge.pid,
        edge.port,
        requests,
        connections=connections,
        expected=expected,
        warm_up=length.warm_up,
        seconds=length.seconds if per_second is None else length.informative_seconds,
        per_second=per_second,
    )


def _batch_figures(part: str, measured: Measured, target_us: float | None) -> list[Figure]:
    return [
        Figure(part, "events", measured.per_second * _EVENTS, "/s"),
        Figure(part, "CPU an event", measured.cpu_us / _EVENTS, "µs", target=target_us),
        *measured.latency(part),
    ]


def _half_load_figures(part: str, measured: Measured, engines: Engines) -> list[Figure]:
    name = f"{part}, half of that load"
    p50, p99, failures = measured.latency(name)
    return [
        Figure(name, "requests", measured.per_second, "/s"),
        p50,
        replace(p99, target=engines.p99_target_ms),
        failures,
    ]
