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
    told = await _run(progress, "consumer into nothing", length, "nothing")
    return [
        Figure(part, "events", told["rows"] / told["seconds"], "/s"),
        Figure(part, "CPU an event", _us(told["cpu_seconds"], told), "µs", target=_CONSUMER_TARGET_US),
        *latency_figures(part, "chunk", told["chunk_seconds"]),
        Figure(part, "peak memory", told["peak_mb"], "MB"),
    ]


async def measure_clickhouse(progress: Progress, length: RunLength) -> list[Figure]:
    """The same into chDB. ClickHouse's share is what its engine and the threads that call it have used."""
    part = "consumer and ClickHouse"
    told = await _run(progress, "consumer into ClickHouse", length, "clickhouse")
    consumer = told["consumer_cpu_seconds"]
    inserting = _us(told["cpu_seconds"] - consumer, told)
    settled = _us(told["settled_cpu_seconds"] - consumer, told)
    return [
        Figure(part, "events", told["rows"] / told["seconds"], "/s"),
        Figure(part, "CPU of the consumer an event", _us(consumer, told), "µs"),
        Figure(part, "CPU of ClickHouse a row", inserting, "µs", target=_CLICKHOUSE_TARGET_US),
        Figure(part, "the same once merges have ended", settled, "µs"),
        *latency_figures(part, "chunk", told["chunk_seconds"]),
        Figure(part, "peak memory", told["peak_mb"], "MB"),
    ]


def _us(seconds: float, told: dict[str, Any]) -> float:
    return 1e6 * seconds / float(told["rows"])


async def measure_on_kafka(progress: Progress, length: RunLength, bootstrap: str) -> list[Figure]:
    """From Kafka to where the rows would be inserted."""
    part = "consumer on Kafka"
    told = await _run(progress, "consumer on Kafka into nothing", length, "nothing", bootstrap)
    return [
        Figure(part, "events", told["rows"] / told["seconds"], "/s"),
        Figure(part, "CPU an event", _us(told["cpu_seconds"], told), "µs", target=_KAFKA_TARGET_US),
        *latency_figures(part, "chunk", told["chunk_seconds"]),
        Figure(part, "peak memory", told["peak_mb"], "MB"),
    ]


async def _run(
    progress: Progress, label: str, length: RunLength, into: str, bootstrap: str | None = None
) -> dict[str, Any]:
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
        }
        async with running_child("consumer_process", arguments) as child:
            return await child.read()
