"""Measures curves of the consumer of ingest batches, by partitions and by sizes of batches, and of ClickHouse, by
sizes of inserts."""

from dataclasses import replace

from loadtests.bench.consumer import run_consumer, us_a_row
from loadtests.bench.figures import percentile
from loadtests.bench.on_kafka import running_engines
from loadtests.bench.progress import Progress
from loadtests.bench.run_length import RunLength
from loadtests.curves.points import Point

_PARTITIONS = (1, 12, 120)
_BATCHES = (1, 10, 100, 1000)
_INSERTS = (100, 1_000, 10_000, 50_000)
# Each event has a record of its own. Filling the log with these takes much longer than consuming them, so there
# are fewer.
_SINGLE_SHARE = 4


async def measure_partitions(progress: Progress, length: RunLength) -> list[Point]:
    """Measure one consumer that reads all partitions of a topic, from Kafka to the insert."""
    points = []
    for partitions in _PARTITIONS:
        async with running_engines(progress, partitions) as (kafka, _):
            label = f"consumer, {partitions} partitions"
            report = await run_consumer(progress, label, length, "nothing", kafka.bootstrap)
        cost = us_a_row(report["cpu_seconds"], report)
        points.append(Point("consumer-partitions", "100 events a record", partitions, cost))
    return points


async def measure_batches(progress: Progress, length: RunLength) -> list[Point]:
    """Measure records of 1 to 1,000 events, from Kafka to the insert."""
    points = []
    async with running_engines(progress) as (kafka, _):
        for events in _BATCHES:
            label = f"consumer, {events} events a record"
            fewer = replace(length, consumer_events=length.consumer_events // _SINGLE_SHARE)
            report = await run_consumer(
                progress,
                label,
                fewer if events == 1 else length,
                "nothing",
                kafka.bootstrap,
                batch_events=events,
            )
            cost = us_a_row(report["cpu_seconds"], report)
            points.append(Point("consumer-batch", "12 partitions", events, cost))
    return points


async def measure_inserts(progress: Progress, length: RunLength) -> list[Point]:
    """Measure ClickHouse with inserts of different maximum sizes, with and without the merges that follow."""
    points = []
    for rows in _INSERTS:
        fewer = replace(length, consumer_events=min(length.consumer_events, 400 * rows))
        report = await run_consumer(
            progress, f"inserts of {rows:,} rows", fewer, "clickhouse", chunk_rows=rows
        )
        consumer = report["consumer_cpu_seconds"]
        for line, name in (("inserts", "cpu_seconds"), ("inserts and merges", "settled_cpu_seconds")):
            points.append(Point("insert-rows", line, rows, us_a_row(report[name] - consumer, report)))
        for line, share in (("p50", 0.5), ("p99", 0.99)):
            took = 1e3 * percentile(report["chunk_seconds"], share)
            points.append(Point("insert-time", f"plan to commit, {line}", rows, took))
    return points
