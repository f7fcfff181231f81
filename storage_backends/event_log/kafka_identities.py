"""Log IDs: which history a topic holds. Offsets begin anew when a topic is recreated, and rows carry (log, offset).

A compacted topic keeps, for each topic, its log ID and the ID that Kafka gave the topic when the two were bound. A
topic that was recreated by hand has another ID at Kafka, and therefore another log ID, which all clients derive alike.
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
# No topic has this character in its name: versions that do not know the key see a topic that they never ask for.
_BOUND = "#topic-id"


def choose_log_id(identities: Mapping[str, str], topic: str, topic_id: str | None) -> str | None:
    """Return the log ID of the topic that Kafka knows by `topic_id`; None where `pharos migrate` never made one."""
    log_id = identities.get(topic)
    bound = identities.get(topic + _BOUND)
    if log_id is None or topic_id is None or bound in (None, topic_id):
        return log_id
    return topic_id[:_ID_DIGITS]


async def find_log_id(connection: KafkaConnection, topic: str, topic_id: str | None) -> str | None:
    """Return what `choose_log_id` does, and bind an ID that is not bound yet. Raises `StorageUnavailable`."""
    identities = await read_identities(connection)
    if topic_id is not None and topic in identities and topic + _BOUND not in identities:
        await _write(connection, {topic + _BOUND: topic_id})
    return choose_log_id(identities, topic, topic_id)


async def bind_identities(connection: KafkaConnection, topic_ids: Mapping[str, str | None]) -> None:
    """Write down which topic each log ID belongs to. Of a topic that was recreated, the log ID changes. Raises
    `StorageUnavailable`."""
    identities = await read_identities(connection)
    changed: dict[str, str] = {}
    for topic, topic_id in topic_ids.items():
        if topic_id is not None and identities.get(topic + _BOUND) != topic_id:
            log_id = choose_log_id(identities, topic, topic_id)
            assert log_id is not None, "made before it is bound"
            changed |= {topic: log_id, topic + _BOUND: topic_id}
    await _write(connection, changed)


async def make_identities(connection: KafkaConnection, topics: Sequence[str]) -> None:
    """Give each of the topics, which do not exist yet, a new log ID. Raises `StorageUnavailable`."""
    known = await read_identities(connection)
    made = {topic: secrets.token_hex(_ID_DIGITS // 2) for topic in topics}
    # What they were bound to is gone.
    unbound = {topic + _BOUND: "" for topic in topics if topic + _BOUND in known}
    await _write(connection, unbound | made)


async def read_identities(connection: KafkaConnection) -> dict[str, str]:
    """The log ID of each topic, and what each is bound to. Raises `StorageUnavailable`."""
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


async def _write(connection: KafkaConnection, values: Mapping[str, str]) -> None:
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
