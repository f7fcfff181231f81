"""Creates the topics of the log, and describes them for the clients."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from pipeline_contracts.errors import StorageUnavailable
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_identities import (
    IDENTITIES,
    bind_identities,
    create_identities,
    read_identities,
)
from storage_backends.event_log.kafka_start import describe_failure, start_client
from storage_backends.event_log.kafka_topic_ids import TopicDescription, describe_topics

_DESCRIBE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The settings with which new topics are created."""

    partitions: int
    replicas: int
    min_insync_replicas: int
    retention_hours: float
    record_bytes: int
    """Size of the largest record that a client may send, in bytes."""


@asynccontextmanager
async def admin_client(connection: KafkaConnection) -> AsyncIterator[AIOKafkaAdminClient]:
    """Open an admin client. Raises `StorageUnavailable` for any error of the brokers."""
    admin = AIOKafkaAdminClient(**connection.client_options(), request_timeout_ms=10_000)
    try:
        await start_client(admin.start, admin.close)
        try:
            yield admin
        finally:
            await admin.close()
    except (KafkaError, OSError) as error:
        raise StorageUnavailable(await describe_failure(connection, error)) from error


async def read_topics(connection: KafkaConnection, topics: Sequence[str]) -> Mapping[str, TopicDescription]:
    """Describe the topics. Raises `StorageUnavailable`, also for a topic that does not exist."""
    async with admin_client(connection) as admin:
        described = await describe_topics(admin._client, topics, _DESCRIBE_SECONDS)
    for topic in topics:
        if topic not in described:
            raise StorageUnavailable(f"There is no topic {topic}; run `pharos migrate`.")
    return described


async def list_partitions(connection: KafkaConnection, topic: str) -> range:
    """Return the topic's current partitions. Raises `StorageUnavailable`, also for a topic that does not exist."""
    return range((await read_topics(connection, [topic]))[topic].partitions)


async def create_topics(
    connection: KafkaConnection, topics: Sequence[str], settings: TopicSettings
) -> list[str]:
    """Create the missing topics and return their names. Existing topics keep their settings. Raises
    `StorageUnavailable`."""
    async with admin_client(connection) as admin:
        existing = set(await admin.list_topics())
        if IDENTITIES not in existing:
            # This topic is compacted, so that the newest log ID of each topic is kept permanently.
            await _create(
                admin,
                NewTopic(IDENTITIES, 1, settings.replicas, topic_configs={"cleanup.policy": "compact"}),
            )
        created = [topic for topic in topics if topic not in existing]
        known = await read_identities(connection)
        # Create the log IDs before the topics: consumers refuse a topic without a log ID.
        await create_identities(
            connection, [topic for topic in topics if topic in created or topic not in known]
        )
        for topic in created:
            configs = {
                "min.insync.replicas": str(settings.min_insync_replicas),
                "retention.ms": str(int(settings.retention_hours * 3_600_000)),
                "compression.type": "producer",
                # Leave space for the batch header, and for a body that does not compress.
                "max.message.bytes": str(settings.record_bytes + 2**20),
            }
            await _create(
                admin, NewTopic(topic, settings.partitions, settings.replicas, topic_configs=configs)
            )
        described = await describe_topics(admin._client, topics, _DESCRIBE_SECONDS)
    await bind_identities(connection, {name: found.topic_id for name, found in described.items()})
    return created


async def _create(admin: AIOKafkaAdminClient, topic: NewTopic) -> None:
    response = await admin.create_topics([topic])
    for name, code, *_ in response.topic_errors:
        error = for_code(code)
        if code and error is not TopicAlreadyExistsError:
            raise StorageUnavailable(f"The topic {name} cannot be created: {error.__name__}")
