"""Runs consumers as a process: from Kafka into ClickHouse, and into the database for monitors."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from prometheus_client import CollectorRegistry

from consumers.assemble import MONITOR_TRANSFORMS, TRANSFORMS, assemble_loop, ignore_step
from consumers.chunk import OnStep, Transform
from consumers.insert_lease import StoreClock
from consumers.loop import ConsumerLoop
from consumers.metrics import ConsumersCollector
from consumers.scan_heartbeats import running_scan
from ingest_edge.metrics import new_registry
from ingest_edge.serve_metrics import serve_metrics
from pipeline_contracts import topics
from pipeline_contracts.settings import Settings
from storage_backends.column_store.clickhouse_server import open_clickhouse_server
from storage_backends.event_log.kafka import open_kafka_log
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_consumer import KafkaLogConsumer
from storage_backends.event_log.kafka_topics import list_partitions
from storage_backends.monitor_states.interface import MonitorStates
from storage_backends.monitor_states.postgres import open_postgres_monitor_states
from wiring.processes.health_server import serve_health
from wiring.processes.prerequisites import open_when_available, require_settings


@asynccontextmanager
async def run_consumers(
    settings: Settings, names: Sequence[str], server: socket.socket, *, on_step: OnStep = ignore_step
) -> AsyncIterator[None]:
    """Run the consumers with these names (`TRANSFORMS` and `MONITOR_TRANSFORMS`), and serve their health on a bound
    socket. At the end each finishes its current chunk and leaves its group, so that others take over at once. Raises
    `BadSettings`."""
    monitors = [name for name in names if name in MONITOR_TRANSFORMS]
    _, clickhouse_url, *_ = require_settings(
        settings, "kafka_bootstrap", "clickhouse_url", *(["database_url"] if monitors else [])
    )
    connection = KafkaConnection.from_settings(settings)
    loops: dict[asyncio.Task[None], ConsumerLoop] = {}
    async with AsyncExitStack() as stack:
        registry = new_registry()
        metrics = ConsumersCollector()
        registry.register(metrics)
        await serve_metrics(stack, settings.metrics_listen, server, registry)
        await serve_health(stack, server, {"consumers": lambda: _failure_reason(loops)})
        store = await open_when_available(
            lambda: open_clickhouse_server(
                clickhouse_url,
                cluster=settings.clickhouse_cluster,
                statement_seconds=settings.clickhouse_timeout_seconds,
            )
        )
        stack.push_async_callback(store.close)
        log = await open_kafka_log(
            connection,
            [topics.dead_letter_topic(topic) for topic in topics.ALL_TOPICS],
            buffer_bytes=settings.kafka_buffer_bytes,
            acknowledge_seconds=settings.kafka_timeout_seconds,
        )
        stack.push_async_callback(log.close)
        transforms: list[Transform] = [TRANSFORMS[name]() for name in names if name in TRANSFORMS]
        if monitors:
            states = await _open_states(stack, settings, registry, connection)
            transforms += [MONITOR_TRANSFORMS[name](states) for name in monitors]
        clock = StoreClock(store)
        for transform in transforms:
            consumer = KafkaLogConsumer(
                connection,
                topics.CONSUMER_GROUP,
                transform.topic,
                session_seconds=settings.kafka_session_seconds,
            )
            loop = assemble_loop(
                settings, transform, consumer=consumer, log=log, store=store, on_step=on_step, clock=clock
            )
            metrics.add(loop.metrics)
            task = asyncio.create_task(loop.run(), name=transform.topic)
            loops[task] = loop
            stack.push_async_callback(consumer.close)
            stack.push_async_callback(_finish, loop, task)
        yield


def _failure_reason(loops: Mapping["asyncio.Task[None]", ConsumerLoop]) -> str | None:
    """Return why a consumer does not work; None if all do."""
    if not loops:
        return "the column store has not answered yet"
    for task, loop in loops.items():
        if task.done():
            return f"the consumer of {loop.transform.topic} has ended"
        if loop.failure_reason is not None:
            return loop.failure_reason
    return None


async def _open_states(
    stack: AsyncExitStack, settings: Settings, registry: CollectorRegistry, connection: KafkaConnection
) -> MonitorStates:
    """Open the monitor states, and start a heartbeat scan, which any number of processes may run."""
    (database_url,) = require_settings(settings, "database_url")
    states = await open_when_available(lambda: open_postgres_monitor_states(database_url))
    stack.push_async_callback(states.close)
    partitions = partial(list_partitions, connection)
    await stack.enter_async_context(running_scan(states, registry, partitions))
    return states


async def _finish(loop: ConsumerLoop, task: "asyncio.Task[None]") -> None:
    loop.stop.set()
    await task
