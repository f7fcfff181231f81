"""Measures the consumer alone: with a column store that discards everything, and with the embedded
ClickHouse."""

import tempfile
from typing import Any

from loadtests.bench.child_process import running_child
from loadtests.bench.figures import Figure, latency_figures
from loadtests.bench.progress import Progress
from loadtests.bench.run_length import RunLength

_BATCH_EVENTS = 100
_CONSUMER_TARGET_US = 3.0
_KAFKA_TARGET_US = 2.5
_CLICKHOUSE_TARGET_US = 8.0


async def measure_consumer(progress: Progress, length: RunLength) -> list[Figure]:
    """Measure the consumer from the log to the insert, with the CPU time of the whole process."""
    part = "consumer"
    report = await run_consumer(progress, "consumer into nothing", length, "nothing")
    return [
        Figure(part, "events", report["rows"] / report["seconds"], "/s"),
        Figure(
            part, "CPU an event", us_a_row(report["cpu_seconds"], report), "µs", target=_CONSUMER_TARGET_US
        ),
        *latency_figures(part, "chunk", report["chunk_seconds"]),
        Figure(part, "peak memory", report["peak_mb"], "MB"),
    ]


async def measure_clickhouse(progress: Progress, length: RunLength) -> list[Figure]:
    """Measure the consumer with chDB. ClickHouse's part is the CPU time of its engine, and of the threads that
    call it."""
    part = "consumer and ClickHouse"
    report = await run_consumer(progress, "consumer into ClickHouse", length, "clickhouse")
    consumer = report["consumer_cpu_seconds"]
    inserting = us_a_row(report["cpu_seconds"] - consumer, report)
    settled = us_a_row(report["settled_cpu_seconds"] - consumer, report)
    return [
        Figure(part, "events", report["rows"] / report["seconds"], "/s"),
        Figure(part, "CPU of the consumer an event", us_a_row(consumer, report), "µs"),
        Figure(part, "CPU of ClickHouse a row", inserting, "µs", target=_CLICKHOUSE_TARGET_US),
        Figure(part, "the same once merges have ended", settled, "µs"),
        *latency_figures(part, "chunk", report["chunk_seconds"]),
        Figure(part, "peak memory", report["peak_mb"], "MB"),
    ]


def us_a_row(seconds: float, report: dict[str, Any]) -> float:
    """Return the CPU time per row in microseconds, from a report of `run_consumer`."""
    return 1e6 * seconds / float(report["rows"])


async def measure_on_kafka(progress: Progress, length: RunLength, bootstrap: str) -> list[Figure]:
    """Measure the consumer from Kafka to the insert."""
    part = "consumer on Kafka"
    report = await run_consumer(progress, "consumer on Kafka into nothing", length, "nothing", bootstrap)
    return [
        Figure(part, "events", report["rows"] / report["seconds"], "/s"),
        Figure(part, "CPU an event", us_a_row(report["cpu_seconds"], report), "µs", target=_KAFKA_TARGET_US),
        *latency_figures(part, "chunk", report["chunk_seconds"]),
        Figure(part, "peak memory", report["peak_mb"], "MB"),
    ]


async def run_consumer(
    progress: Progress,
    label: str,
    length: RunLength,
    into: str,
    bootstrap: str | None = None,
    transform: str = "telemetry",
    coding: str = "json",
    **more: object,
) -> dict[str, Any]:
    """Run a consumer in a process of its own, and return its report. `into`: `nothing` or `clickhouse`. `more`:
    other arguments of `consumer_process`."""
    with (
        tempfile.TemporaryDirectory(prefix="pharos-bench-") as folder,
        progress.step(f"{label}: {length.consumer_events:,} events", None),
    ):
        arguments: dict[str, object] = {
            "folder": folder,
            "events": length.consumer_events,
            "batch_events": _BATCH_EVENTS,
            "into": into,
            "bootstrap": bootstrap,
            "transform": transform,
            "coding": coding,
            **more,
        }
        async with running_child("consumer_process", arguments) as child:
            return await child.read()
