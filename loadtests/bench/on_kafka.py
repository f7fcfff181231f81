"""Measures parts on Kafka and Redis. Both are started for the measurement."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from loadtests.bench.child_process import ChildFailed
from loadtests.bench.consumer import measure_on_kafka
from loadtests.bench.edge import measure_edge, production
from loadtests.bench.figures import Figure
from loadtests.bench.progress import Progress
from loadtests.bench.run_length import RunLength
from pipeline_contracts.settings import Settings
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_topics import create_topics
from tests.support.engines import EngineMissing
from tests.support.kafka_broker import KafkaBroker, running_kafka
from tests.support.redis_server import RedisServer, running_redis
from wiring.processes.migrate import all_topics, topic_settings


async def measure_edge_on_kafka(progress: Progress, length: RunLength) -> list[Figure]:
    """Measure the edge like `measure_edge`. The broker acknowledges each request, and keys and limits are in Redis."""
    async with running_engines(progress) as (kafka, redis):
        return await measure_edge(progress, length, production(kafka.bootstrap, redis.url))


async def measure_consumer_on_kafka(progress: Progress, length: RunLength) -> list[Figure]:
    """Measure one consumer that reads all partitions."""
    async with running_engines(progress) as (kafka, _):
        return await measure_on_kafka(progress, length, kafka.bootstrap)


@asynccontextmanager
async def running_engines(
    progress: Progress, partitions: int | None = None
) -> AsyncIterator[tuple[KafkaBroker, RedisServer]]:
    """Run Kafka with the topics of Pharos, and Redis, within the context. `partitions`: the number of partitions of
    each topic; the default is that of the setting. Raises `ChildFailed` if one of them cannot be started."""
    settings = Settings() if partitions is None else Settings(kafka_partitions=partitions)
    with tempfile.TemporaryDirectory(prefix="pharos-bench-") as folder, ExitStack() as exits:
        try:
            with progress.step("Kafka and Redis: starting", None):
                starting = exits.enter_context
                broker = running_kafka(Path(folder) / "kafka", starts_quickly=False)
                kafka = await asyncio.to_thread(starting, broker)
                redis = await asyncio.to_thread(starting, running_redis(Path(folder) / "redis"))
                await create_topics(KafkaConnection(kafka.bootstrap), all_topics(), topic_settings(settings))
        except EngineMissing as error:
            raise ChildFailed(str(error)) from error
        yield kafka, redis
