"""Deadlines of inserts that wait for the store."""

import asyncio
from typing import Any

from consumers.insert_lease import LEASE_SECONDS, InsertLease, LeasedStore, StoreClock
from pipeline_contracts.errors import InsertTooLate
from pipeline_contracts.records import Position
from storage_backends.column_store.interface import Lines, QueryResult


class _SlowStore:
    """A store that runs one insert at a time, and a log that accepts each commit, with one clock."""

    now = 1000.0
    inserted = 0

    def __init__(self) -> None:
        self._one = asyncio.Lock()

    async def insert(self, table: str, lines: Lines, rows: int, token: str, before: int = 0) -> None:
        async with self._one:
            await asyncio.sleep(0)
            self.now += LEASE_SECONDS / 3
            if self.now >= before:
                raise InsertTooLate("too late")
            self.inserted += 1

    async def query(self, sql: str, parameters: Any = None) -> QueryResult:
        return QueryResult(("now_ms",), [[int(1000 * self.now)]])

    async def commit(self, partition: int, position: Position) -> None:
        return None


async def test_an_insert_that_waits_for_a_slow_store_is_not_late() -> None:
    """Chunks of all topics share the store; each insert takes a third of a lease."""
    store: Any = _SlowStore()
    clock = StoreClock(store, monotonic=lambda: store.now, max_concurrent_inserts=1)

    async def insert(partition: int) -> None:
        lease = InsertLease(store, partition, Position(0, 1), clock)
        await lease.commit_plan()
        await LeasedStore(store, lease, clock).insert("pharos.first", b"", 1, "token")

    await asyncio.gather(*(insert(partition) for partition in range(9)))
    assert store.inserted == 9
