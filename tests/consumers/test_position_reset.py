"""A group's position is reset: stored records are not stored again, even if the store has deleted some meanwhile."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from consumers.assemble import assemble_loop
from consumers.transforms.telemetry_topic import EVENTS, RECEIPTS, TelemetryTopic
from pipeline_contracts.records import Position
from pipeline_contracts.settings import Settings
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from storage_backends.column_store.interface import Lines
from storage_backends.event_log.interface import LogConsumer
from storage_backends.event_log.sqlite_consumer import SqliteLogConsumer
from tests.support.log_under_test import LogUnderTest, kafka_under_test, sqlite_under_test, wait_claimed
from tests.support.telemetry_records import RECEIVED_MS, append_batch

_DAY_MS = 86_400_000
# Long before the retention of any table.
_EXPIRED_MS = RECEIVED_MS - 1000 * _DAY_MS
# A Monday, so its partitions have the same name in both tables. They have no rows of other tests, which a DELETE would
# rewrite, for half a minute in a full run.
_MONDAY = datetime(2099, 1, 5, tzinfo=UTC)
_COUNT = "SELECT count(), uniqExact(receipt_id) FROM {table} WHERE environment_id = {{env:String}}"


# The loop uses either log in the same way; tests/contract covers the logs.
@pytest.fixture(params=["sqlite", pytest.param("kafka", marks=pytest.mark.full)])
async def logged(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LogUnderTest]:
    if request.param == "sqlite":
        async with sqlite_under_test(tmp_path) as under_test:
            # Another group has read nothing yet, so the log keeps the records.
            assert isinstance(under_test.consumer, SqliteLogConsumer)
            other = SqliteLogConsumer(under_test.consumer._log, "another group", under_test.topic)
            await other.commit(0, Position(0))
            yield under_test
    else:
        async with kafka_under_test(request.getfixturevalue("kafka_bootstrap")) as under_test:
            yield under_test


class _ExpiringStore:
    """The store with merges that delete expired rows immediately after each insert."""

    def __init__(self, store: ChdbColumnStore) -> None:
        self._store = store
        self.query, self.command, self.close = store.query, store.command, store.close

    async def insert(self, table: str, lines: Lines, rows: int, token: str, before: int = 0) -> None:
        await self._store.insert(table, lines, rows, token, before)
        await self._store.command(f"OPTIMIZE TABLE {table} FINAL")


async def _consume(store: Any, logged: LogUnderTest, chunk_rows: int) -> None:
    transform = TelemetryTopic()
    transform.topic = logged.topic
    await wait_claimed(logged.consumer)
    loop = assemble_loop(
        Settings(chunk_seconds=0.05, chunk_rows=chunk_rows),
        transform,
        consumer=logged.consumer,
        log=logged.log,
        store=store,
    )
    working = asyncio.create_task(loop.run())
    async with asyncio.timeout(60):
        while not working.done() and await _backlog(logged.consumer):
            await asyncio.sleep(0.02)
    loop.stop.set()
    await working


async def _backlog(consumer: LogConsumer) -> int:
    ((_, position),) = (await wait_claimed(consumer)).items()
    return await consumer.end(0) - position.next_offset


async def _reset_position(logged: LogUnderTest) -> None:
    await wait_claimed(logged.consumer)
    await logged.consumer.commit(0, Position(0))


async def _send(logged: LogUnderTest, environment: str, batches: list[int]) -> None:
    """Append a batch of two events for each time of receipt."""
    for n, received_ms in enumerate(batches):
        events = [{"type": "log", "id": str(n)}] * 2
        await append_batch(
            logged.log, environment, str(n), events, received_ms=received_ms, topic=logged.topic
        )


async def _stored(store: ChdbColumnStore, environment: str) -> list[list[int]]:
    """Return rows and batches of both tables."""
    counts = [
        await store.query(_COUNT.format(table=table), {"env": environment}) for table in (EVENTS, RECEIPTS)
    ]
    return [list(row) for count in counts for row in count.rows]


async def test_a_position_that_was_reset_stores_no_duplicates(
    logged: LogUnderTest, column_store: ChdbColumnStore
) -> None:
    """The rows of the first records are deleted, as after their retention, in one table before the other."""
    environment = f"env_{uuid.uuid4().hex}"
    await _send(logged, environment, [int(_MONDAY.timestamp() * 1000)] * 8)
    await _consume(column_store, logged, chunk_rows=4)
    # Each time with other chunk bounds, and therefore other tokens.
    for chunk_rows, expired in ((6, {EVENTS: 4, RECEIPTS: 3}), (2, {EVENTS: 2})):
        for table, below in expired.items():
            await column_store.command(
                f"DELETE FROM {table} IN PARTITION '{_MONDAY:%Y-%m-%d}' "
                "WHERE environment_id = {env:String} AND log_offset < {below:UInt64}",
                {"env": environment, "below": below},
            )
        await _reset_position(logged)
        await _consume(column_store, logged, chunk_rows)
        assert await _stored(column_store, environment) == [[16, 8], [8, 8]], chunk_rows


@pytest.mark.parametrize("logged", ["sqlite"], indirect=True)
async def test_records_past_the_retention_do_not_stop_the_consumer(
    logged: LogUnderTest, column_store: ChdbColumnStore
) -> None:
    environment = f"env_{uuid.uuid4().hex}"
    await _send(logged, environment, [_EXPIRED_MS] * 2 + [RECEIVED_MS] * 2)
    await _consume(_ExpiringStore(column_store), logged, chunk_rows=4)
    assert await _stored(column_store, environment) == [[4, 2], [2, 2]]
