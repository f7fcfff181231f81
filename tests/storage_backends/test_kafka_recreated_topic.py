"""A topic that is deleted and recreated while an edge and a consumer use it."""

import asyncio
import contextlib
import secrets
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack

import pytest
from aiokafka.admin import NewTopic

from pipeline_contracts.errors import PartitionLost, RecordsRemoved, StorageUnavailable
from pipeline_contracts.records import Position
from storage_backends.event_log import kafka, kafka_member
from storage_backends.event_log.kafka import KafkaEventLog, open_kafka_log
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_consumer import KafkaLogConsumer
from storage_backends.event_log.kafka_identities import _write_values, choose_log_id, read_identities
from storage_backends.event_log.kafka_topics import admin_client, create_topics, read_topics
from tests.support.log_under_test import MB, topic_settings, wait_claimed, wait_connected

OLD, NEW = "a" * 32, "b" * 32


@pytest.mark.parametrize(
    ("identities", "topic_id", "expected"),
    [
        ({}, OLD, None),
        ({"t": "0a1b"}, None, "0a1b"),
        # Not bound yet, because the version or the brokers that wrote it had no topic IDs.
        ({"t": "0a1b"}, OLD, "0a1b"),
        ({"t": "0a1b", "t#topic-id": OLD}, OLD, "0a1b"),
        ({"t": "0a1b", "t#topic-id": OLD}, None, "0a1b"),
        ({"t": "0a1b", "t#topic-id": OLD}, NEW, "b" * 12),
        ({"t": "0a1b", "other#topic-id": OLD}, NEW, "0a1b"),
    ],
)
def test_a_log_id_belongs_to_one_topic_id(
    identities: Mapping[str, str], topic_id: str | None, expected: str | None
) -> None:
    assert choose_log_id(identities, "t", topic_id) == expected


@pytest.fixture
async def exits() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
def short_watch_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (kafka, kafka_member):
        monkeypatch.setattr(module, "_WATCH_SECONDS", 0.1)


async def recreate(connection: KafkaConnection, topic: str, partitions: int) -> None:
    """Delete and create the topic, as an operator does with Kafka's tools."""
    async with admin_client(connection) as admin:
        await admin.delete_topics([topic])
        while topic in await admin.list_topics():
            await asyncio.sleep(0.05)
        while topic not in await admin.list_topics():
            await admin.create_topics([NewTopic(topic, partitions, 1)])
            await asyncio.sleep(0.05)


async def append_all(log: KafkaEventLog, topic: str, values: set[bytes]) -> None:
    """Append each value until it is acknowledged, as clients do."""
    waiting = set(values)
    while waiting:
        for value in list(waiting):
            with contextlib.suppress(StorageUnavailable):
                await log.append(topic, value, b"", value)
                waiting.remove(value)
        await asyncio.sleep(0.05)


async def read_all(consumer: KafkaLogConsumer, expected_values: set[bytes]) -> set[bytes]:
    """Read from the group's position, as a loop does, until all expected values have arrived."""
    found: set[bytes] = set()
    nexts: dict[tuple[str, int], int] = {}
    while not expected_values <= found:
        try:
            for partition, position in (await consumer.claim()).items():
                topic_partition = (consumer.log_id, partition)
                start = nexts.setdefault(topic_partition, position.next_offset)
                for record in await consumer.read(partition, start, None, MB, 0.2):
                    found.add(record.value)
                    nexts[topic_partition] = record.offset + 1
        except RecordsRemoved:
            raise
        except (PartitionLost, StorageUnavailable):
            await asyncio.sleep(0.05)
    return found


async def test_a_topic_that_is_recreated_under_running_clients_is_another_log(
    kafka_bootstrap: str,
    exits: AsyncExitStack,
    short_watch_interval: None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    connection = KafkaConnection(kafka_bootstrap)
    topic = f"test.{secrets.token_hex(6)}"
    await create_topics(connection, [topic], topic_settings(1))
    log = await open_kafka_log(connection, [topic], buffer_bytes=8 * MB, acknowledge_seconds=5.0)
    exits.push_async_callback(log.close)
    consumer = KafkaLogConsumer(connection, "group", topic, session_seconds=15.0)
    exits.push_async_callback(consumer.close)
    await wait_connected(log)
    before = {b"before %d" % n for n in range(4)}
    async with asyncio.timeout(120):
        await append_all(log, topic, before)
        await wait_claimed(consumer)
        assert await read_all(consumer, before) == before
        await consumer.commit(0, Position(4))
        old = consumer.log_id

        await recreate(connection, topic, 3)
        # A late chunk of the old topic: whether the brokers accept this commit or not, it must not move the position in
        # the new topic.
        with contextlib.suppress(StorageUnavailable, PartitionLost):
            await consumer.commit(0, Position(6, 9))
        # More records than the old topic had, so that its position would lie in the middle of the new one.
        after = {b"after %d" % n for n in range(60)}
        _, read = await asyncio.gather(append_all(log, topic, after), read_all(consumer, after))
        assert read == after
        assert consumer.log_id != old
        # The edge knows the new partitions.
        assert log._targets.count(topic) == 3
        assert len(await wait_claimed(consumer, 3)) == 3

        # `pharos migrate` binds the ID that all clients have derived, and changes nothing else.
        assert await create_topics(connection, [topic], topic_settings(3)) == []
        described = (await read_topics(connection, [topic]))[topic]
        assert (await read_identities(connection))[topic] == consumer.log_id
        assert choose_log_id(await read_identities(connection), topic, described.topic_id) == consumer.log_id
    assert "pharos migrate" in caplog.text
    assert "deleted and created again" in caplog.text


async def test_a_log_that_lost_records_is_read_under_a_new_log_id_of_the_operator(
    kafka_bootstrap: str, exits: AsyncExitStack
) -> None:
    """The procedure of docs/operations/operation.md. Under the old log ID new records would look stored."""
    connection = KafkaConnection(kafka_bootstrap)
    topic = f"test.{secrets.token_hex(6)}"
    await create_topics(connection, [topic], topic_settings(1))
    log = await open_kafka_log(connection, [topic], buffer_bytes=8 * MB, acknowledge_seconds=5.0)
    exits.push_async_callback(log.close)
    await wait_connected(log)
    values = {b"%d" % n for n in range(4)}
    async with asyncio.timeout(120):
        await append_all(log, topic, values)
        consumer = KafkaLogConsumer(connection, "group", topic, session_seconds=15.0)
        await wait_claimed(consumer)
        # Records that were read before the log was restored.
        await consumer.commit(0, Position(10))
        with pytest.raises(StorageUnavailable, match="the brokers have lost records"):
            while True:
                await consumer.read(0, 10, None, MB, 0.2)
        await consumer.close()

        await _write_values(connection, {topic: "0123456789ab"})
        consumer = KafkaLogConsumer(connection, "group", topic, session_seconds=15.0)
        exits.push_async_callback(consumer.close)
        await wait_claimed(consumer)
        assert consumer.log_id == "0123456789ab"
        assert await read_all(consumer, values) == values


def key_for_partition(partition: int, partitions: int) -> bytes:
    """Return a key whose records go to this partition."""
    return next(key for key in (b"%d" % n for n in range(999)) if zlib.crc32(key) % partitions == partition)


async def test_records_without_a_partition_do_not_stop_other_topics(
    kafka_bootstrap: str, exits: AsyncExitStack, short_watch_interval: None
) -> None:
    connection = KafkaConnection(kafka_bootstrap)
    topic, other = (f"test.{secrets.token_hex(6)}" for _ in range(2))
    await create_topics(connection, [topic, other], topic_settings(3))
    log = await open_kafka_log(connection, [topic, other], buffer_bytes=8 * MB, acknowledge_seconds=60.0)
    exits.push_async_callback(log.close)
    await wait_connected(log)
    async with asyncio.timeout(120):
        # The producer knows the partition from now on.
        await log.append(topic, key_for_partition(2, 3), b"", b"before")
        log._watching.cancel()
        await recreate(connection, topic, 1)
        # The partition no longer exists: the record waits for the brokers.
        waiting = log.append(topic, key_for_partition(2, 3), b"", b"waits")
        log._watching = asyncio.create_task(log._watch())
        while log._targets.count(topic) != 1:
            await asyncio.sleep(0.05)
        await append_all(log, other, {b"of the other topic"})
        await append_all(log, topic, {b"of the same one"})
        assert not waiting.done()
        # When its partition is back, the record is delivered.
        await recreate(connection, topic, 3)
        await waiting
