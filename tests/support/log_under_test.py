"""Event logs for the contract tests: the same handle on each engine."""

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Protocol

from pipeline_contracts.errors import PartitionLost, StorageUnavailable
from pipeline_contracts.records import Position
from storage_backends.event_log.interface import EventLog, LogConsumer
from storage_backends.event_log.kafka import KafkaEventLog, open_kafka_log
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_consumer import KafkaLogConsumer
from storage_backends.event_log.kafka_topics import TopicSettings, create_topics
from storage_backends.event_log.sqlite import open_sqlite_log
from storage_backends.event_log.sqlite_consumer import SqliteLogConsumer

MB = 2**20


class LogUnderTest(Protocol):
    """A log and its consumer: a topic with one partition, and another topic."""

    topic: str
    other: str
    log: EventLog
    consumer: LogConsumer

    async def reopen(self) -> None:
        """Close both sides and open them again on the same data."""
        ...


class SqliteUnderTest:
    """The embedded log in a folder."""

    topic, other = "test.topic", "test.other"
    log: EventLog
    consumer: LogConsumer

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self._path = folder / "log.sqlite"
        self._stack = stack

    async def open(self) -> None:
        log = await open_sqlite_log(self._path, 100 * MB)
        self._stack.push_async_callback(log.close)
        self.log, self.consumer = log, SqliteLogConsumer(log, "group", self.topic)

    async def reopen(self) -> None:
        await self.log.close()
        await self.open()


class KafkaUnderTest:
    """Two new topics on a broker."""

    log: KafkaEventLog
    consumer: LogConsumer

    def __init__(self, bootstrap: str, stack: AsyncExitStack) -> None:
        name = secrets.token_hex(6)
        self.topic, self.other = f"test.{name}", f"test.{name}.other"
        self._connection = KafkaConnection(bootstrap)
        self._stack = stack

    async def create(self) -> None:
        async with asyncio.timeout(120):
            while True:
                # Repeat until the broker responds within the client's ten seconds.
                with contextlib.suppress(StorageUnavailable):
                    await create_topics(self._connection, [self.topic, self.other], topic_settings(1))
                    break
                await asyncio.sleep(0.2)
        await self.open()

    async def open(self) -> None:
        self.log = await open_kafka_log(
            self._connection, [self.topic, self.other], buffer_bytes=100 * MB, acknowledge_seconds=60.0
        )
        self._stack.push_async_callback(self.log.close)
        await wait_connected(self.log)
        # The group must not declare its only member dead while a busy machine pauses.
        self.consumer = KafkaLogConsumer(self._connection, "group", self.topic, session_seconds=45.0)
        self._stack.push_async_callback(self.consumer.close)

    async def reopen(self) -> None:
        await self.consumer.close()
        await self.log.close()
        await self.open()


@contextlib.asynccontextmanager
async def sqlite_under_test(folder: Path) -> AsyncIterator[LogUnderTest]:
    async with AsyncExitStack() as stack:
        under_test = SqliteUnderTest(folder, stack)
        await under_test.open()
        yield under_test


@contextlib.asynccontextmanager
async def kafka_under_test(bootstrap: str) -> AsyncIterator[LogUnderTest]:
    async with AsyncExitStack() as stack:
        under_test = KafkaUnderTest(bootstrap, stack)
        await under_test.create()
        yield under_test


def topic_settings(partitions: int) -> TopicSettings:
    """Return the topic settings of tests."""
    return TopicSettings(partitions, 1, 1, 1.0, 20 * MB)


async def wait_connected(log: EventLog) -> None:
    """Wait until the log accepts records."""
    async with asyncio.timeout(120):
        while log.stalled_reason() is not None:
            await asyncio.sleep(0.02)


async def wait_claimed(consumer: LogConsumer, partitions: int = 1) -> Mapping[int, Position]:
    """Wait until the consumer has this many partitions; return them."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        # A broker that has just started may not know the positions yet.
        with contextlib.suppress(PartitionLost, StorageUnavailable):
            found = await consumer.claim()
            if len(found) == partitions:
                return found
        await asyncio.sleep(0.05)
    raise AssertionError("the partitions were not handed out")


async def write_and_read(connection: KafkaConnection) -> None:
    """Create a topic, append a record to it and read it back. Raises `AssertionError`."""
    await create_topics(connection, ["guarded"], topic_settings(1))
    log = await open_kafka_log(connection, ["guarded"], buffer_bytes=MB, acknowledge_seconds=60.0)
    consumer = KafkaLogConsumer(connection, "group", "guarded")
    try:
        await wait_connected(log)
        await log.append("guarded", b"k", b"m", b"value")
        await wait_claimed(consumer)
        records = []
        while not records:
            records = await consumer.read(0, 0, None, MB, 1.0)
        assert records[0].value == b"value"
    finally:
        await consumer.close()
        await log.close()
