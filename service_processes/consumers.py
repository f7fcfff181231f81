"""The consumers as a process: from Kafka into ClickHouse."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from consumers.assemble import TRANSFORMS, assemble_loop, no_step
from consumers.chunk import OnStep
from consumers.loop import ConsumerLoop
from ingest_edge.metrics import new_registry
from pipeline_contracts import topics
from pipeline_contracts.settings import Settings
from service_processes.listening import serve_health
from service_processes.needs import need
from service_processes.patience import when_there
from storage_backends.column_store.clickhouse_server import open_clickhouse_server
from storage_backends.event_log.kafka import open_kafka_log
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_consumer import KafkaLogConsumer


@asynccontextmanager
async def run_consumers(
    settings: Settings, names: Sequence[str], server: socket.socket, *, on_step: OnStep = no_step
) -> AsyncIterator[None]:
    """The consumers of these names (`TRANSFORMS`), with their health on a bound socket. At the end each finishes
    the chunk that it works on and leaves its group, so that others take over at once. Raises `BadSettings`."""
    _, clickhouse_url = need(settings, "kafka_bootstrap", "clickhouse_url")
    connection = KafkaConnection.from_settings(settings)
    loops: dict[asyncio.Task[None], ConsumerLoop] = {}

    def state() -> str | None:
        if not loops:
            return "the column store has not answered yet"
        for task, loop in loops.items():
            if task.done():
                return f"the consumer of {loop.transform.topic} has ended"
            if loop.failing is not None:
                return loop.failing
        return None

    async with AsyncExitStack() as stack:
        registry = new_registry()
        await serve_health(stack, server, {"consumers": state}, registry)
        store = await when_there(
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
        for name in names:
            transform = TRANSFORMS[name]()
            consumer = KafkaLogConsumer(
                connection,
                topics.CONSUMER_GROUP,
                transform.topic,
                session_seconds=settings.kafka_session_seconds,
            )
            loop = assemble_loop(
                settings, transform, consumer=consumer, log=log, store=store, on_step=on_step
            )
            registry.register(loop.metrics)
            working = asyncio.create_task(loop.run(), name=transform.topic)
            loops[working] = loop
            stack.push_async_callback(consumer.close)
            stack.push_async_callback(_finish, loop, working)
        yield


async def _finish(loop: ConsumerLoop, working: "asyncio.Task[None]") -> None:
    loop.stop.set()
    await working
