"""The edge as a process: Kafka behind it, Redis beside it, no database."""

import gc
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from aiohttp import web

from ingest_edge.app import edge_runner
from ingest_edge.assemble import assembled_edge
from ingest_edge.health import Readiness
from ingest_edge.http_server import ServerLimits
from ingest_edge.metrics import new_registry
from ingest_edge.serve_metrics import serve_metrics
from pipeline_contracts import topics
from pipeline_contracts.settings import Settings
from storage_backends.event_log.kafka import open_kafka_log
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.key_directory.redis import open_redis_key_directory
from storage_backends.rate_counter.redis import open_redis_rate_counter
from storage_backends.salts.redis import open_redis_salts
from wiring.processes.needs import need

# A fiftieth of a second's budget: at 5,000/s a lease of 100 tokens, fifty round trips a second under full load.
SLICE_SECONDS = 0.02


@asynccontextmanager
async def run_edge(settings: Settings, server: socket.socket, *, worker: int = 0) -> AsyncIterator[Readiness]:
    """An edge on a bound socket, from listening to drained. It starts without its engines, unready, and finds
    them when they come. `worker` is its number among those that share the port. Raises `BadSettings`."""
    redis_url, receipt_key, _ = need(settings, "redis_url", "receipt_key", "kafka_bootstrap")
    async with AsyncExitStack() as stack:
        log = await open_kafka_log(
            KafkaConnection.from_settings(settings),
            topics.ALL_TOPICS,
            buffer_bytes=settings.kafka_buffer_bytes,
            acknowledge_seconds=settings.kafka_timeout_seconds,
        )
        stack.push_async_callback(log.close)
        directory = await open_redis_key_directory(redis_url)
        stack.push_async_callback(directory.close)
        counter = await open_redis_rate_counter(redis_url)
        stack.push_async_callback(counter.close)
        salts = await open_redis_salts(redis_url)
        stack.push_async_callback(salts.close)
        readiness = Readiness({"event_log": log.stalled_reason, "keys": directory.unready_reason})
        registry = new_registry()
        edge = await stack.enter_async_context(
            assembled_edge(
                settings,
                directory=directory,
                counter=counter,
                slice_seconds=SLICE_SECONDS,
                log=log,
                salts=salts,
                receipt_key=receipt_key.encode(),
                readiness=readiness,
                registry=registry,
            )
        )
        await serve_metrics(stack, settings.metrics_listen, server, registry, worker)
        runner = edge_runner(edge, ServerLimits.from_settings(settings))
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        # Called before the port closes.
        stack.callback(setattr, readiness, "shutting_down", True)
        await web.SockSite(runner, server, backlog=1024).start()
        # What lives until the end need not be looked at by each collection.
        gc.collect()
        gc.freeze()
        yield readiness
