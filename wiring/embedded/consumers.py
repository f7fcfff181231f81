"""Runs all consumers on the embedded event log, inside the process of `pharos up`."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial

from prometheus_client import CollectorRegistry

from consumers.assemble import MONITOR_TRANSFORMS, TRANSFORMS, assemble_loop
from consumers.chunk import OnStep
from consumers.insert_lease import StoreClock
from consumers.loop import ConsumerLoop
from consumers.metrics import ConsumersCollector
from consumers.scan_heartbeats import running_scan
from ingest_edge.health import ReadinessCheck
from pipeline_contracts import topics
from pipeline_contracts.settings import Settings
from storage_backends.column_store.interface import ColumnStore
from storage_backends.event_log.sqlite import SqliteEventLog
from storage_backends.event_log.sqlite_consumer import SqliteLogConsumer
from storage_backends.monitor_states.interface import MonitorStates

_Consumer = tuple[ConsumerLoop, "asyncio.Task[None]"]


async def start_consumers(
    stack: AsyncExitStack,
    settings: Settings,
    *,
    log: SqliteEventLog,
    store: ColumnStore,
    states: MonitorStates,
    registry: CollectorRegistry,
    on_step: OnStep,
) -> dict[str, ReadinessCheck]:
    """Start one consumer for each topic and the heartbeat scan, and return their readiness checks. When the stack
    closes, the consumers drain for `settings.drain_seconds`."""
    scan = await stack.enter_async_context(running_scan(states, registry, _list_partitions))
    transforms = {name: make() for name, make in TRANSFORMS.items()}
    transforms |= {name: make_of(states) for name, make_of in MONITOR_TRANSFORMS.items()}
    metrics = ConsumersCollector()
    registry.register(metrics)
    consumers: dict[str, _Consumer] = {}
    # The embedded engine inserts one chunk at a time.
    clock = StoreClock(store, max_concurrent_inserts=1)
    for name, transform in transforms.items():
        consumer = SqliteLogConsumer(log, topics.CONSUMER_GROUP, transform.topic)
        loop = assemble_loop(
            settings, transform, consumer=consumer, log=log, store=store, on_step=on_step, clock=clock
        )
        metrics.add(loop.metrics)
        consumers[name] = (loop, asyncio.create_task(loop.run(), name=f"{name} consumer"))
    stack.push_async_callback(_drain, list(consumers.values()), settings.drain_seconds)
    checks: dict[str, ReadinessCheck] = {
        f"{name} consumer": partial(_failure_reason, *consumer) for name, consumer in consumers.items()
    }
    return {**checks, "heartbeat scan": lambda: scan.failure_reason}


async def _list_partitions(topic: str) -> Sequence[int]:
    # The embedded log has one partition for each topic.
    return (0,)


def _failure_reason(loop: ConsumerLoop, task: "asyncio.Task[None]") -> str | None:
    return "the consumer has ended" if task.done() else loop.failure_reason


async def _drain(consumers: Sequence[_Consumer], seconds: float) -> None:
    """Let the consumers store accepted records for up to `seconds`; the log keeps the rest for the next start."""
    for loop, _ in consumers:
        loop.draining = True
    await asyncio.wait([task for _, task in consumers], timeout=seconds)
    for loop, _ in consumers:
        loop.stop.set()
    await asyncio.gather(*(task for _, task in consumers))
