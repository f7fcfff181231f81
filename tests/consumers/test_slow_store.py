"""A store that needs longer to read an insert than a lease lasts still accepts it eventually."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from consumers.insert_lease import LEASE_SECONDS, InsertLease, LeasedStore, StoreClock
from pipeline_contracts.errors import InsertTooLate
from pipeline_contracts.records import Position
from storage_backends.column_store.interface import Lines, QueryResult


class _SlowStore:
    """Reads an insert for this many seconds before it compares the deadline with its clock."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.now = 5.0
        self.inserts = 0
        self.leases: list[float] = []

    async def insert(self, table: str, lines: Lines, rows: int, token: str, before: int = 0) -> None:
        self.leases.append(before - self.now)
        self.now += self.seconds
        if self.now >= before:
            raise InsertTooLate("too late")
        self.inserts += 1

    async def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> QueryResult:
        return QueryResult(("now_ms",), [[int(1000 * self.now)]])

    async def commit(self, partition: int, position: Position) -> None:
        await asyncio.sleep(0)

    async def insert_chunk(self, clock: StoreClock, tries: int) -> int:
        """Insert as the loop does, with a new plan after each refusal. Return the number of attempts."""
        lease = InsertLease(self, 0, Position(0, 1), clock)  # type: ignore[arg-type]  # A log that only commits.
        store = LeasedStore(self, lease, clock)  # type: ignore[arg-type]  # A store that only inserts and returns its time.
        for tried in range(1, tries + 1):
            await lease.commit_plan()
            try:
                await store.insert("t", b"", 1, "token")
            except InsertTooLate:
                continue
            return tried
        pytest.fail(f"refused {tries} times")


async def test_a_slow_store_gets_more_time_after_each_refusal() -> None:
    store = _SlowStore(60.0)
    clock = StoreClock(store, monotonic=lambda: store.now)  # type: ignore[arg-type]  # Asked for its time only.
    assert await store.insert_chunk(clock, 5) == 3
    # The next chunk gets the longer lease immediately.
    assert await store.insert_chunk(clock, 5) == 1
    # Some minutes later the lease is short again, for frozen consumers.
    store.seconds = 1.0
    store.now += 300
    store.leases.clear()
    await store.insert_chunk(clock, 1)
    assert store.leases[0] <= LEASE_SECONDS


async def test_a_changed_clock_does_not_extend_the_lease() -> None:
    store = _SlowStore(1.0)
    clock = StoreClock(store, monotonic=lambda: store.now)  # type: ignore[arg-type]  # Asked for its time only.
    await store.insert_chunk(clock, 1)
    clock._offset_seconds -= 3600
    assert await store.insert_chunk(clock, 2) == 2
    assert clock.lease_seconds == LEASE_SECONDS


async def test_the_lease_is_bounded() -> None:
    """The store remembers a bounded number of tokens, so an insert must arrive before its token is forgotten."""
    store = _SlowStore(10_000.0)
    clock = StoreClock(store, monotonic=lambda: store.now)  # type: ignore[arg-type]  # Asked for its time only.
    with pytest.raises(pytest.fail.Exception):
        await store.insert_chunk(clock, 20)
    assert max(store.leases) <= 4 * LEASE_SECONDS
