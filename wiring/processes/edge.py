"""Runs the ingest edge as a process on Kafka and Redis, without a database."""

import gc
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from aiohttp import web

from ingest_edge.app import edge_runner
from ingest_edge.assemble import open_edge
from ingest_edge.health import Readiness
from ingest_edge.http_server import ServerLimits
from ingest_edge.metrics import new_registry
from ingest_edge.report_intake import reporting_intake
from ingest_edge.serve_metrics import serve_metrics
from pipeline_contracts import topics
from pipeline_contracts.settings import Settings
from storage_backends.event_log.kafka import open_kafka_log
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.key_directory.redis import open_redis_key_directory
from storage_backends.rate_counter.redis import open_redis_rate_counter
from storage_backends.salts.redis import open_redis_salts
from wiring.processes.prerequisites import require_settings

# A lease is the tokens of 20 ms: 100 at 5,000 events/s, so 50 round trips a second under full load.
SLICE_SECONDS = 0.02


@asynccontextmanager
async def run_edge(settings: Settings, server: socket.socket, *, worker: int = 0) -> AsyncIterator[Readiness]:
    """Serve the edge on a bound socket until the context ends, then drain it. The edge starts without its engines, not
    ready, and connects when they are available. `worker` is its number among the edges that share the port. Raises
    `BadSettings`."""
    redis_url, receipt_key, _ = require_settings(settings, "redis_url", "receipt_key", "kafka_bootstrap")
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
            open_edge(
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
        await stack.enter_async_context(reporting_intake(log))
        await web.SockSite(runner, server, backlog=1024).start()
        # Exclude the objects that live until the end from garbage collection.
        gc.collect()
        gc.freeze()
        yield readiness
