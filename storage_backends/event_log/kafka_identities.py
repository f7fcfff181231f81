"""Manages log IDs. A log ID identifies the history of a topic: rows store (log ID, offset), and offsets restart when a
topic is recreated.

A compacted topic keeps the log ID of each topic, together with Kafka's topic ID at that time. A recreated topic has
another topic ID. All clients derive the same new log ID from it.
"""

import secrets
from collections.abc import Mapping, Sequence

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from pipeline_contracts.errors import StorageUnavailable
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_start import start_client

IDENTITIES = "pharos.log-identities"
_ID_DIGITS = 12
# Topic names cannot contain "#". Older versions take such a key for the name of a topic that they never read, and
# ignore it.
_BOUND = "#topic-id"


def choose_log_id(identities: Mapping[str, str], topic: str, topic_id: str | None) -> str | None:
    """Return the log ID of the topic with Kafka's `topic_id`; None if `pharos migrate` has not created one."""
    log_id = identities.get(topic)
    bound = identities.get(topic + _BOUND)
    if log_id is None or topic_id is None or bound in (None, topic_id):
        return log_id
    return topic_id[:_ID_DIGITS]


async def find_log_id(connection: KafkaConnection, topic: str, topic_id: str | None) -> str | None:
    """Return the result of `choose_log_id`. If the log ID belongs to no topic ID yet, store the topic ID with it.
    Raises `StorageUnavailable`."""
    identities = await read_identities(connection)
    if topic_id is not None and topic in identities and topic + _BOUND not in identities:
        await _write_values(connection, {topic + _BOUND: topic_id})
    return choose_log_id(identities, topic, topic_id)


async def bind_identities(connection: KafkaConnection, topic_ids: Mapping[str, str | None]) -> None:
    """Store the current topic ID of each topic with its log ID. A recreated topic gets another log ID. Raises
    `StorageUnavailable`."""
    identities = await read_identities(connection)
    changed: dict[str, str] = {}
    for topic, topic_id in topic_ids.items():
        if topic_id is not None and identities.get(topic + _BOUND) != topic_id:
            log_id = choose_log_id(identities, topic, topic_id)
            assert log_id is not None, "created before it is bound"
            changed |= {topic: log_id, topic + _BOUND: topic_id}
    await _write_values(connection, changed)


async def create_identities(connection: KafkaConnection, topics: Sequence[str]) -> None:
    """Create a log ID for each topic, before the topics exist. Raises `StorageUnavailable`."""
    known = await read_identities(connection)
    created = {topic: secrets.token_hex(_ID_DIGITS // 2) for topic in topics}
    # The topics to which earlier log IDs belonged no longer exist.
    unbound = {topic + _BOUND: "" for topic in topics if topic + _BOUND in known}
    await _write_values(connection, unbound | created)


async def read_identities(connection: KafkaConnection) -> dict[str, str]:
    """Return the log ID of each topic, and the topic IDs that are stored with them. Raises `StorageUnavailable`."""
    partition = TopicPartition(IDENTITIES, 0)
    consumer = AIOKafkaConsumer(
        **connection.client_options(), enable_auto_commit=False, auto_offset_reset="earliest"
    )
    found: dict[str, str] = {}
    try:
        await start_client(consumer.start, consumer.stop)
        try:
            consumer.assign([partition])
            end = (await consumer.end_offsets([partition]))[partition]
            while await consumer.position(partition) < end:
                for records in (await consumer.getmany(partition, timeout_ms=1000)).values():
                    found |= {r.key.decode(): (r.value or b"").decode() for r in records if r.key}
        finally:
            await consumer.stop()
    except (KafkaError, OSError) as error:
        raise StorageUnavailable(f"Kafka at {connection.bootstrap}: {error!r}") from error
    return {key: value for key, value in found.items() if value}


async def _write_values(connection: KafkaConnection, values: Mapping[str, str]) -> None:
    if not values:
        return
    producer = AIOKafkaProducer(**connection.client_options(), acks="all")
    try:
        await start_client(producer.start, producer.stop)
        try:
            for key, value in values.items():
                # A record without a value removes the key.
                await producer.send_and_wait(IDENTITIES, value.encode() or None, key.encode())
        finally:
            await producer.stop()
    except (KafkaError, OSError) as error:
        raise StorageUnavailable(f"Kafka at {connection.bootstrap}: {error!r}") from error
