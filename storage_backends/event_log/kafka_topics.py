"""The topics of the log: made once, looked at by everybody who connects."""

import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from pipeline_contracts.errors import StorageUnavailable
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_start import start_client

# Says which history each topic holds: offsets begin anew when a topic is made anew.
IDENTITIES = "pharos.log-identities"


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """How topics are made."""

    partitions: int
    replicas: int
    min_insync_replicas: int
    retention_hours: float
    record_bytes: int
    """Largest record that a client may send, bytes."""


@asynccontextmanager
async def admin_client(connection: KafkaConnection) -> AsyncIterator[AIOKafkaAdminClient]:
    """Raises `StorageUnavailable` for whatever the brokers answer."""
    admin = AIOKafkaAdminClient(**connection.client_options(), request_timeout_ms=10_000)
    try:
        await start_client(admin.start, admin.close)
        try:
            yield admin
        finally:
            await admin.close()
    except (KafkaError, OSError) as error:
        raise StorageUnavailable(f"Kafka at {connection.bootstrap}: {error!r}") from error


async def partition_counts(connection: KafkaConnection, topics: Sequence[str]) -> Mapping[str, int]:
    """Partitions by topic. Raises `StorageUnavailable`, also for a topic that is not there."""
    async with admin_client(connection) as admin:
        present = set(await admin.list_topics())
        missing = [topic for topic in topics if topic not in present]
        if missing:
            raise StorageUnavailable(f"There is no topic {missing[0]}; run `pharos migrate`.")
        described = await admin.describe_topics(list(topics))
        return {topic["topic"]: len(topic["partitions"]) for topic in described}


async def list_partitions(connection: KafkaConnection, topic: str) -> range:
    """The partitions that the topic has now. Raises `StorageUnavailable`, also where it is not there."""
    return range((await partition_counts(connection, [topic]))[topic])


async def create_topics(
    connection: KafkaConnection, topics: Sequence[str], settings: TopicSettings
) -> list[str]:
    """Make the topics that are missing; gives their names. Those that are there keep their settings.

    Raises `StorageUnavailable`.
    """
    async with admin_client(connection) as admin:
        present = set(await admin.list_topics())
        if IDENTITIES not in present:
            # Compacted: the newest identity of each topic is kept for good.
            await _create(
                admin,
                NewTopic(IDENTITIES, 1, settings.replicas, topic_configs={"cleanup.policy": "compact"}),
            )
        made = [topic for topic in topics if topic not in present]
        known = await read_identities(connection)
        # Written before the topic is there: a topic without an identity is never read from.
        await _write_identities(
            connection, [topic for topic in topics if topic in made or topic not in known]
        )
        for topic in made:
            configs = {
                "min.insync.replicas": str(settings.min_insync_replicas),
                "retention.ms": str(int(settings.retention_hours * 3_600_000)),
                "compression.type": "producer",
                # Room for the head of the batch, and for a body that does not compress.
                "max.message.bytes": str(settings.record_bytes + 2**20),
            }
            await _create(
                admin, NewTopic(topic, settings.partitions, settings.replicas, topic_configs=configs)
            )
    return made


async def _create(admin: AIOKafkaAdminClient, topic: NewTopic) -> None:
    response = await admin.create_topics([topic])
    for name, code, *_ in response.topic_errors:
        error = for_code(code)
        if code and error is not TopicAlreadyExistsError:
            raise StorageUnavailable(f"The topic {name} cannot be made: {error.__name__}")


async def read_identities(connection: KafkaConnection) -> dict[str, str]:
    """The log ID of each topic. Raises `StorageUnavailable`."""
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
                    found |= {r.key.decode(): r.value.decode() for r in records if r.key and r.value}
        finally:
            await consumer.stop()
    except (KafkaError, OSError) as error:
        raise StorageUnavailable(f"Kafka at {connection.bootstrap}: {error!r}") from error
    return found


async def _write_identities(connection: KafkaConnection, topics: Sequence[str]) -> None:
    if not topics:
        return
    producer = AIOKafkaProducer(**connection.client_options(), acks="all")
    await start_client(producer.start, producer.stop)
    try:
        for topic in topics:
            await producer.send_and_wait(IDENTITIES, secrets.token_hex(6).encode(), topic.encode())
    finally:
        await producer.stop()
