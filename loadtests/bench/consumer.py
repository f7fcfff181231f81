"""The consumer alone, before a column store that takes nothing and before the embedded ClickHouse."""

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
    """From the log to where the rows would be inserted; CPU time is the whole process's."""
    part = "consumer"
    told = await run_consumer(progress, "consumer into nothing", length, "nothing")
    return [
        Figure(part, "events", told["rows"] / told["seconds"], "/s"),
        Figure(part, "CPU an event", us_a_row(told["cpu_seconds"], told), "µs", target=_CONSUMER_TARGET_US),
        *latency_figures(part, "chunk", told["chunk_seconds"]),
        Figure(part, "peak memory", told["peak_mb"], "MB"),
    ]


async def measure_clickhouse(progress: Progress, length: RunLength) -> list[Figure]:
    """The same into chDB. ClickHouse's share is what its engine and the threads that call it have used."""
    part = "consumer and ClickHouse"
    told = await run_consumer(progress, "consumer into ClickHouse", length, "clickhouse")
    consumer = told["consumer_cpu_seconds"]
    inserting = us_a_row(told["cpu_seconds"] - consumer, told)
    settled = us_a_row(told["settled_cpu_seconds"] - consumer, told)
    return [
        Figure(part, "events", told["rows"] / told["seconds"], "/s"),
        Figure(part, "CPU of the consumer an event", us_a_row(consumer, told), "µs"),
        Figure(part, "CPU of ClickHouse a row", inserting, "µs", target=_CLICKHOUSE_TARGET_US),
        Figure(part, "the same once merges have ended", settled, "µs"),
        *latency_figures(part, "chunk", told["chunk_seconds"]),
        Figure(part, "peak memory", told["peak_mb"], "MB"),
    ]


def us_a_row(seconds: float, told: dict[str, Any]) -> float:
    """Microseconds a row of what `run_consumer` told."""
    return 1e6 * seconds / float(told["rows"])


async def measure_on_kafka(progress: Progress, length: RunLength, bootstrap: str) -> list[Figure]:
    """From Kafka to where the rows would be inserted."""
    part = "consumer on Kafka"
    told = await run_consumer(progress, "consumer on Kafka into nothing", length, "nothing", bootstrap)
    return [
        Figure(part, "events", told["rows"] / told["seconds"], "/s"),
        Figure(part, "CPU an event", us_a_row(told["cpu_seconds"], told), "µs", target=_KAFKA_TARGET_US),
        *latency_figures(part, "chunk", told["chunk_seconds"]),
        Figure(part, "peak memory", told["peak_mb"], "MB"),
    ]


async def run_consumer(
    progress: Progress,
    label: str,
    length: RunLength,
    into: str,
    bootstrap: str | None = None,
    transform: str = "telemetry",
    coding: str = "json",
) -> dict[str, Any]:
    """What a consumer in a process of its own tells of its work. `into`: nothing or clickhouse."""
    with (
        tempfile.TemporaryDirectory(prefix="pharos-bench-") as folder,
        progress.step(f"{label}: {length.consumer_events:,} events", None),
    ):
        arguments = {
            "folder": folder,
            "events": length.consumer_events,
            "batch_events": _BATCH_EVENTS,
            "into": into,
            "bootstrap": bootstrap,
            "transform": transform,
            "coding": coding,
        }
        async with running_child("consumer_process", arguments) as child:
            return await child.read()
