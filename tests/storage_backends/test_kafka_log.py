"""Behaviour of the log on Kafka only: brokers that stop and return, topics that are missing or recreated."""

import asyncio
import logging
import secrets
import signal
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from pipeline_contracts.errors import LogFull, PartitionLost, RecordsRemoved, StorageUnavailable
from pipeline_contracts.records import Position
from storage_backends.event_log.kafka import KafkaEventLog, open_kafka_log
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_consumer import KafkaLogConsumer
from storage_backends.event_log.kafka_identities import read_identities
from storage_backends.event_log.kafka_topics import (
    admin_client,
    create_topics,
    list_partitions,
    read_topics,
)
from tests.support.engines import free_port, or_skip
from tests.support.kafka_broker import KafkaBroker, running_kafka
from tests.support.log_under_test import MB, topic_settings, wait_claimed, wait_connected
from tests.support.waits import measure_loop_time

# A killed broker must be found again within a test.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker for this file only: it is killed and restarted."""
    with or_skip(running_kafka(tmp_path_factory.mktemp("killed-kafka"))) as running:
        yield running


@pytest.fixture
async def topic(broker: KafkaBroker) -> str:
    name = f"test.{secrets.token_hex(6)}"
    await create_topics(KafkaConnection(broker.bootstrap), [name], topic_settings(2))
    return name


@pytest.fixture
async def exits() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


async def opened(
    exits: AsyncExitStack, bootstrap: str, topic: str, *, buffer_bytes: int = 8 * MB, seconds: float = 60.0
) -> KafkaEventLog:
    log = await open_kafka_log(
        KafkaConnection(bootstrap), [topic], buffer_bytes=buffer_bytes, acknowledge_seconds=seconds
    )
    exits.push_async_callback(log.close)
    return log


def consuming(exits: AsyncExitStack, broker: KafkaBroker, topic: str) -> KafkaLogConsumer:
    connection = KafkaConnection(broker.bootstrap)
    consumer = KafkaLogConsumer(connection, f"group of {topic}", topic, session_seconds=15.0)
    exits.push_async_callback(consumer.close)
    return consumer


async def read_values(consumer: KafkaLogConsumer, partition: int) -> list[bytes]:
    values: list[bytes] = []
    at = 0
    while records := await consumer.read(partition, at, None, 100 * MB, 1.0):
        values += [record.value for record in records]
        at = records[-1].offset + 1
    return values


async def append_with_retries(log: KafkaEventLog, topic: str, value: bytes) -> None:
    """Retry refused appends, as clients do."""
    async with asyncio.timeout(180):
        while True:
            try:
                return await log.append(topic, b"k", b"", value)
            except StorageUnavailable:
                await asyncio.sleep(0.1)


async def test_a_log_without_brokers_refuses_appends_and_reports_why(exits: AsyncExitStack) -> None:
    log = await opened(exits, f"127.0.0.1:{free_port()}", "any")
    with pytest.raises(StorageUnavailable):
        await log.append("any", b"k", b"", b"x")
    async with asyncio.timeout(120):
        while "cannot be reached" not in (log.stalled_reason() or ""):
            await asyncio.sleep(0.05)


async def test_a_missing_topic_is_reported_with_the_remedy(
    exits: AsyncExitStack, broker: KafkaBroker
) -> None:
    log = await opened(exits, broker.bootstrap, "never.made")
    async with asyncio.timeout(120):
        while "pharos migrate" not in (log.stalled_reason() or ""):
            await asyncio.sleep(0.05)
    with pytest.raises(StorageUnavailable, match=r"never\.made.*pharos migrate"):
        await consuming(exits, broker, "never.made").claim()
    # No request has created the topic.
    with pytest.raises(StorageUnavailable, match=r"never\.made"):
        await read_topics(KafkaConnection(broker.bootstrap), ["never.made"])


async def test_topics_are_created_once_with_an_identity_each(broker: KafkaBroker, topic: str) -> None:
    connection = KafkaConnection(broker.bootstrap)
    identity = (await read_identities(connection))[topic]
    other = f"{topic}.other"
    assert await create_topics(connection, [topic, other], topic_settings(3)) == [other]
    identities = await read_identities(connection)
    assert identities[topic] == identity
    assert identities[other] != identity
    described = await read_topics(connection, [topic, other])
    assert {name: found.partitions for name, found in described.items()} == {topic: 2, other: 3}
    assert list(await list_partitions(connection, other)) == [0, 1, 2]


async def test_a_recreated_topic_is_another_log(broker: KafkaBroker, topic: str) -> None:
    connection = KafkaConnection(broker.bootstrap)
    before = (await read_identities(connection))[topic]
    async with admin_client(connection) as admin:
        await admin.delete_topics([topic])
        async with asyncio.timeout(120):
            while topic in await admin.list_topics():
                await asyncio.sleep(0.1)
    assert await create_topics(connection, [topic], topic_settings(2)) == [topic]
    assert (await read_identities(connection))[topic] != before


async def test_memory_is_bounded_while_a_killed_broker_is_unavailable(
    exits: AsyncExitStack, broker: KafkaBroker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "aiokafka")
    log = await opened(exits, broker.bootstrap, topic, buffer_bytes=4 * MB, seconds=1.0)
    await wait_connected(log)
    await append_with_retries(log, topic, b"before")
    broker.stop(signal.SIGKILL)
    # Python's memory only, because the embedded ClickHouse, which other tests leave open, has other memory in the
    # process.
    tracemalloc.start()
    try:
        refused = {StorageUnavailable: 0, LogFull: 0}
        waiting = []
        async with measure_loop_time() as had:
            while had() < 3.0:
                # More appends per round than the buffer has space for, even if rounds are rare.
                for _ in range(100):
                    try:
                        waiting.append(log.append(topic, secrets.token_bytes(4), b"", bytes(50_000)))
                    except StorageUnavailable as error:
                        refused[type(error)] += 1
                assert log.stored_bytes() <= 4 * MB
                await asyncio.sleep(0.02)
        assert refused[LogFull] > 0
        async with asyncio.timeout(60):
            while log.stalled_reason() is None:
                await asyncio.sleep(0.01)
        ended = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 60)
        assert {type(e) for e in ended} == {StorageUnavailable}
        grown = tracemalloc.get_traced_memory()[1] / MB
    finally:
        tracemalloc.stop()
    print(f"memory grew by {grown:.1f} MB while {len(waiting) + sum(refused.values())} appends were refused")
    assert grown < 64

    broker.start()
    await append_with_retries(log, topic, b"after")
    async with asyncio.timeout(180):
        while log.stalled_reason() is not None or log.stored_bytes():
            await asyncio.sleep(0.1)
    consumer = consuming(exits, broker, topic)
    values = [v for p in await wait_claimed(consumer, 2) for v in await read_values(consumer, p)]
    assert {b"before", b"after"} <= set(values)


async def test_clients_close_in_time_without_the_broker_and_reconnect(
    exits: AsyncExitStack, broker: KafkaBroker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One log and consumer are closed while the broker is down; another pair stays and works after the restart."""
    caplog.set_level(logging.CRITICAL, "aiokafka")
    closing, other = await opened(exits, broker.bootstrap, topic, seconds=2.0), f"{topic}.other"
    await wait_connected(closing)
    await create_topics(KafkaConnection(broker.bootstrap), [other], topic_settings(2))
    staying = await opened(exits, broker.bootstrap, other, seconds=10.0)
    await wait_connected(staying)
    closing_consumer, consumer = consuming(exits, broker, topic), consuming(exits, broker, other)
    await wait_claimed(closing_consumer, 2)
    await wait_claimed(consumer, 2)
    broker.stop(signal.SIGKILL)
    try:
        async with measure_loop_time() as had:
            waiting = asyncio.ensure_future(closing.append(topic, b"k", b"", b"x"))
            await closing_consumer.close()
            await closing.close()
            with pytest.raises(StorageUnavailable):
                await waiting
            assert had() < 20
    finally:
        broker.start()
    await append_with_retries(staying, other, b"x")
    async with asyncio.timeout(180):
        while True:
            try:
                positions = await wait_claimed(consumer, 2)
                found = [r for p in positions for r in await consumer.read(p, 0, None, MB, 0.5)]
                if found:
                    break
            except (StorageUnavailable, PartitionLost):
                await asyncio.sleep(0.1)
    assert found[0].value == b"x"


async def test_a_commit_of_an_earlier_assignment_is_refused_even_if_the_partition_came_back(
    exits: AsyncExitStack, broker: KafkaBroker, topic: str
) -> None:
    first, second = consuming(exits, broker, topic), consuming(exits, broker, topic)
    await wait_claimed(first, 2)
    assert first._member is not None
    client, released = first._member.consumer, asyncio.Event()
    real_commit = client.commit

    async def late_commit(offsets: object) -> None:
        await released.wait()
        await real_commit(offsets)

    # Like the retry of a client whose first attempt failed: now it would be valid in the next generation.
    client.commit = late_commit
    committing = asyncio.create_task(first.commit(0, Position(0, 5)))
    await second.claim()
    # The first consumer processes a chunk meanwhile and claims nothing.
    await wait_claimed(second, 1)
    await second.close()
    async with asyncio.timeout(120):
        while first.has_partitions() or len(client.assignment()) < 2:
            await asyncio.sleep(0.05)
    released.set()
    with pytest.raises(PartitionLost):
        await committing
    client.commit = real_commit
    for partition in (0, 1):
        with pytest.raises(PartitionLost):
            await first.commit(partition, Position(0, 5))
        with pytest.raises(PartitionLost):
            await first.read(partition, 0, None, MB, 0.1)
    assert await wait_claimed(first, 2) == {0: Position(0), 1: Position(0)}


async def test_records_that_the_brokers_removed_are_reported(
    exits: AsyncExitStack, broker: KafkaBroker, topic: str
) -> None:
    from aiokafka import TopicPartition
    from aiokafka.admin import RecordsToDelete

    log = await opened(exits, broker.bootstrap, topic)
    await wait_connected(log)
    # All with one key, and therefore in one partition.
    for n in range(10):
        await log.append(topic, b"k", b"", b"%d" % n)
    consumer = consuming(exits, broker, topic)
    await wait_claimed(consumer, 2)
    async with asyncio.timeout(180):
        while not (found := [p for p in (0, 1) if await consumer.read(p, 0, None, MB, 0.5)]):
            pass
    (partition,) = found
    async with admin_client(KafkaConnection(broker.bootstrap)) as admin:
        await admin.delete_records({TopicPartition(topic, partition): RecordsToDelete(before_offset=4)})
    await consumer.close()
    consumer = consuming(exits, broker, topic)
    await wait_claimed(consumer, 2)
    with pytest.raises(RecordsRemoved) as gone:
        while not await consumer.read(partition, 0, None, MB, 1.0):
            pass
    assert gone.value.next_offset == 4
    records = await consumer.read(partition, 4, None, MB, 1.0)
    assert [r.value for r in records] == [b"%d" % n for n in range(4, 10)]


async def test_the_password_appears_in_no_text(tmp_path: Path) -> None:
    connection = KafkaConnection("h:1", "SASL_PLAINTEXT", "PLAIN", "pharos", "hush-hush")
    assert "hush" not in repr(connection)
    assert connection.client_options()["sasl_plain_password"] == "hush-hush"
