"""Measures curves of the edge on Kafka and Redis, by batches, keys, accounts, partitions and rates of requests."""

from dataclasses import replace

from loadtests.bench.edge import Edge, Engines, fresh_edge, measure_requests, production
from loadtests.bench.figures import percentile
from loadtests.bench.ingest_requests import ingest_requests, spread_requests
from loadtests.bench.load import MakeRequest, running_load
from loadtests.bench.measured_load import Measured
from loadtests.bench.on_kafka import running_engines
from loadtests.bench.process_usage import cpu_seconds
from loadtests.bench.progress import Progress
from loadtests.bench.run_length import RunLength
from loadtests.curves.points import Point
from tests.support.accelerator import build_accelerator
from tests.support.kafka_broker import KafkaBroker
from tests.support.redis_server import RedisServer

_CONNECTIONS = 64
_BATCHES = (1, 10, 100, 1000)
_KEYS = (100, 10_000, 100_000)
_PARTITIONS = (1, 12, 120)
_RATES = (100, 300, 1000)


def _engines(bootstrap: str, redis_url: str) -> Engines:
    return replace(production(bootstrap, redis_url), accelerator=str(build_accelerator().parent))


async def measure_batches(progress: Progress, length: RunLength) -> list[Point]:
    """Measure requests of 1 to 1,000 events at full speed, with the accelerator and without."""
    points = []
    async with running_engines(progress) as (kafka, redis):
        with_accelerator = _engines(kafka.bootstrap, redis.url)
        for line, engines in (
            # This line is measured first: a broker becomes fast only after some ten thousand requests, and the
            # costs of the model come from the second line.
            ("Python alone", replace(with_accelerator, accelerator="off")),
            ("with the accelerator", with_accelerator),
        ):
            for events in _BATCHES:
                async with fresh_edge(engines) as edge:
                    requests = ingest_requests(edge.ingest_key, events)
                    before = _cpu_of(kafka)
                    measured = await _measure(progress, f"{events} events, {line}", edge, requests, length)
                    broker_us = 1e6 * (_cpu_of(kafka) - before) / measured.answered
                points.append(Point("edge-batch", line, events, measured.cpu_us / events))
                points.append(Point("edge-full", line, events, measured.per_second))
                points.append(Point("broker-batch", f"edge {line}", events, broker_us))
    return points


async def measure_keys(progress: Progress, length: RunLength) -> list[Point]:
    """Measure requests of one event that use different keys in turn: first keys of one account, then keys of
    different accounts.

    Each key is used once before the measurement, because the edge reads a key from Redis at its first request.
    """
    points = []
    async with running_engines(progress) as (kafka, redis):
        for line, are_accounts in (("keys of one account", False), ("an account for each key", True)):
            for keys in _KEYS:
                accounts = keys if are_accounts else 1
                engines = replace(_engines(kafka.bootstrap, redis.url), keys=keys, accounts=accounts)
                async with fresh_edge(engines) as edge:
                    requests = spread_requests(edge.ingest_keys, 1)
                    await _use_each_once(progress, edge, requests, keys)
                    before = _cpu_of(redis)
                    measured = await _measure(progress, f"{keys:,} keys, {line}", edge, requests, length)
                    redis_us = 1e6 * (_cpu_of(redis) - before) / measured.answered
                points.append(Point("edge-keys", line, keys, measured.cpu_us))
                points.append(Point("redis-keys", line, keys, redis_us))
    return points


async def _use_each_once(progress: Progress, edge: Edge, requests: MakeRequest, keys: int) -> None:
    with progress.step(f"each of {keys:,} keys once", None):
        async with running_load(
            edge.port, requests, connections=_CONNECTIONS, expected=202, limit=keys
        ) as load:
            await load.all_answered.wait()


async def measure_partitions(progress: Progress, length: RunLength) -> list[Point]:
    """Measure topics of 1 to 120 partitions at full speed."""
    points = []
    for partitions in _PARTITIONS:
        async with running_engines(progress, partitions) as (kafka, redis):
            for events in (1, 100):
                async with fresh_edge(_engines(kafka.bootstrap, redis.url)) as edge:
                    requests = ingest_requests(edge.ingest_key, events)
                    label = f"{partitions} partitions, {events} events"
                    measured = await _measure(progress, label, edge, requests, length)
                points.append(Point("edge-partitions", _of(events), partitions, measured.cpu_us))
    return points


async def measure_rates(progress: Progress, length: RunLength) -> list[Point]:
    """Measure moderate rates, at which a produce request contains few requests. Also measure the response time."""
    points = []
    async with running_engines(progress) as (kafka, redis):
        for events in (1, 100):
            for rate in _RATES:
                async with fresh_edge(_engines(kafka.bootstrap, redis.url)) as edge:
                    requests = ingest_requests(edge.ingest_key, events)
                    label = f"{rate:,} requests/s, {events} events"
                    measured = await _measure(progress, label, edge, requests, length, rate)
                points.append(Point("edge-rates", _of(events), rate, measured.cpu_us))
                for name, share in (("p50", 0.5), ("p99", 0.99)):
                    latency = 1e3 * percentile(measured.latencies, share)
                    points.append(Point("edge-latency", f"{_of(events)}, {name}", rate, latency))
    return points


def _cpu_of(engine: KafkaBroker | RedisServer) -> float:
    """Return the CPU seconds that an engine has used so far."""
    assert engine.process is not None
    return cpu_seconds(engine.process.pid)


def _of(events: int) -> str:
    return "1 event a request" if events == 1 else f"{events} events a request"


async def _measure(
    progress: Progress,
    label: str,
    edge: Edge,
    requests: MakeRequest,
    length: RunLength,
    rate: float | None = None,
) -> Measured:
    return await measure_requests(progress, label, edge, requests, _CONNECTIONS, length, rate)
