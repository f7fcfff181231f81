"""Brings every engine to what this version needs: topics, tables, the control plane's database."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

from control_domain.database.engine import open_engine, open_sessions
from control_domain.database.migrations.upgrade import upgrade_database
from control_domain.first_account.account import ensure_first_account
from pipeline_contracts import topics
from pipeline_contracts.settings import Settings
from storage_backends.column_store.apply_schema import apply_schema
from storage_backends.column_store.clickhouse_server import open_clickhouse_server
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_topics import TopicSettings, create_topics
from wiring.processes.needs import need

# A migration may read a whole table: a statement that is given up would begin anew with the next run, and never end.
_STATEMENT_SECONDS = 6 * 3600.0


async def migrate(settings: Settings) -> AsyncIterator[tuple[str, str]]:
    """(engine, what was done), engine by engine. Doing it again, or twice at once, is harmless.

    Raises `BadSettings`, and `StorageUnavailable` for an engine that is away.
    """
    database_url, clickhouse_url, _ = need(settings, "database_url", "clickhouse_url", "kafka_bootstrap")
    made = await create_topics(
        KafkaConnection.from_settings(settings), all_topics(), topic_settings(settings)
    )
    yield "Kafka", f"made {', '.join(made)}" if made else "nothing to do"
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
    """Make the first account where there is none; its keys are in `path` afterwards, for its owner only."""
    (database_url,) = need(settings, "database_url")
    engine = open_engine(database_url)
    try:
        await ensure_first_account(open_sessions(engine), settings, path, base_url)
    finally:
        await engine.dispose()


def all_topics() -> list[str]:
    """Every topic, and beside each the one of its dead letters."""
    return [name for topic in topics.ALL_TOPICS for name in (topic, topics.dead_letter_topic(topic))]


def topic_settings(settings: Settings) -> TopicSettings:
    """How topics are made, from the settings."""
    return TopicSettings(
        settings.kafka_partitions,
        settings.kafka_replicas,
        settings.kafka_min_insync_replicas,
        settings.kafka_retention_hours,
        settings.max_decompressed_bytes,
    )
