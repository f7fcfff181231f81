"""Migrates every engine to this version: Kafka topics, ClickHouse tables, the database of the control plane."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

from control_domain.database.engine import open_engine, open_sessions
from control_domain.database.migrations.upgrade import upgrade_database
from control_domain.first_account.account import ensure_first_account
from control_domain.first_account.owner_email import read_owner_email
from pipeline_contracts import topics
from pipeline_contracts.settings import Settings
from storage_backends.column_store.apply_schema import apply_schema
from storage_backends.column_store.clickhouse_server import open_clickhouse_server
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_topics import TopicSettings, create_topics
from wiring.processes.prerequisites import require_settings

# A migration may read a whole table. After a timeout the next run would start over, and never finish.
_STATEMENT_SECONDS = 6 * 3600.0


async def migrate(settings: Settings) -> AsyncIterator[tuple[str, str]]:
    """Migrate each engine, and yield its name and what was done. Repeated and concurrent calls are harmless.

    Raises `BadSettings`, and `StorageUnavailable` for an engine that cannot be reached.
    """
    read_owner_email(settings)
    database_url, clickhouse_url, _ = require_settings(
        settings, "database_url", "clickhouse_url", "kafka_bootstrap"
    )
    created = await create_topics(
        KafkaConnection.from_settings(settings), all_topics(), topic_settings(settings)
    )
    yield "Kafka", f"made {', '.join(created)}" if created else "nothing to do"
    async with AsyncExitStack() as stack:
        store = await open_clickhouse_server(
            clickhouse_url,
            cluster=settings.clickhouse_cluster,
            statement_seconds=max(_STATEMENT_SECONDS, settings.clickhouse_timeout_seconds),
        )
        stack.push_async_callback(store.close)
        applied = await apply_schema(store, settings.clickhouse_cluster)
    yield "ClickHouse", f"applied {', '.join(applied)}" if applied else "nothing to do"
    engine = open_engine(database_url)
    try:
        await upgrade_database(engine)
    finally:
        await engine.dispose()
    yield "database", "is at the newest revision"


async def ensure_account(settings: Settings, path: Path, base_url: str) -> None:
    """Create the first account if there is none, and write its keys to `path`, which only its owner can read."""
    (database_url,) = require_settings(settings, "database_url")
    engine = open_engine(database_url)
    try:
        await ensure_first_account(open_sessions(engine), settings, path, base_url)
    finally:
        await engine.dispose()


def all_topics() -> list[str]:
    """Return every topic and its dead-letter topic."""
    return [name for topic in topics.ALL_TOPICS for name in (topic, topics.dead_letter_topic(topic))]


def topic_settings(settings: Settings) -> TopicSettings:
    """Return the settings for new topics."""
    return TopicSettings(
        settings.kafka_partitions,
        settings.kafka_replicas,
        settings.kafka_min_insync_replicas,
        settings.kafka_retention_hours,
        settings.max_decompressed_bytes,
    )
