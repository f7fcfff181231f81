"""Bounds the time in which a consumer's inserts count.

A consumer may be frozen between the commit of its plan and its insert (a paused VM, SIGSTOP, a stalled network). When
it continues, another consumer may have stored the chunk so long ago that the store has forgotten the token. Therefore
each insert has a deadline, which the store checks by its own clock: a later insert is refused.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from analytics_queries.store_clock import store_time_ms
from pipeline_contracts.errors import InsertTooLate
from pipeline_contracts.records import Position
from storage_backends.column_store.interface import ColumnStore, QueryResult
from storage_backends.event_log.interface import LogConsumer

# Less than the time in which a table takes more inserts than its window has tokens: 10,000, that is 500 a second.
LEASE_SECONDS = 20.0
# A store under load, or behind a slow network, may need longer to read an insert: after each refusal that was slow, the
# lease is twice as long, up to four times, for some minutes. 10,000 tokens then cover 125 inserts a second.
_MOST_TIMES = 4
_LONGER_FOR_SECONDS = 300.0
# Clocks drift apart, and a store's clock can be set back.
_MEASURE_AGAIN_SECONDS = 300.0


class StoreClock:
    """Translates this machine's monotonic time into the column store's time, never to a later one than it is there."""

    def __init__(
        self,
        store: ColumnStore,
        lease_seconds: float = LEASE_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
        inserts_at_once: int = 4,
    ) -> None:
        self._store = store
        self._usual_seconds = lease_seconds
        self._times = 1
        self._longer_until = 0.0
        self.turns = asyncio.Semaphore(inserts_at_once)
        """Inserts that the store works on at the same time. An insert that waits must not have its deadline
        yet: a slow store would refuse it after the wait."""
        self._ahead = 0.0
        self._measured: float | None = None
        self.monotonic = monotonic

    @property
    def lease_seconds(self) -> float:
        """How long a lease lasts that begins now."""
        longer = self.monotonic() < self._longer_until
        return self._usual_seconds * (self._times if longer else 1)

    @property
    def ahead(self) -> float | None:
        """How many seconds the store's time is ahead of the monotonic one, at least; None: it has to be measured."""
        if self._measured is None or self.monotonic() - self._measured > _MEASURE_AGAIN_SECONDS:
            return None
        return self._ahead

    async def measure(self) -> None:
        """Ask the store for its time, unless that was done lately. Raises `StorageUnavailable`."""
        if self.ahead is not None:
            return
        asked = self.monotonic()
        told_ms = await store_time_ms(self._store)
        # The store has read its clock before the answer was here. If the machine is suspended its monotonic clock
        # may stand still: deadlines are then too early, inserts are refused, and the time is measured again.
        self._ahead = told_ms / 1000 - self.monotonic()
        self._measured = asked

    def take_refusal(self, seconds: float) -> None:
        """Note that an insert came too late, `seconds` after it was sent: have the time measured again, and make leases
        longer if the store was slow. Otherwise a slow store would refuse the same insert for ever."""
        self._measured = None
        lease = self.lease_seconds
        # An insert is sent with half of its time left, or more. One that was refused sooner met another clock.
        if seconds > lease / 4:
            self._times = min(_MOST_TIMES, 2 * round(lease / self._usual_seconds))
            self._longer_until = self.monotonic() + _LONGER_FOR_SECONDS


class InsertLease:
    """The right to insert one planned chunk for the seconds of a lease, counted from the commit of its plan.

    The commit is refused for a partition that is another consumer's, so nobody else had the right when it was made.
    """

    def __init__(self, consumer: LogConsumer, partition: int, planned: Position, clock: StoreClock) -> None:
        self._consumer = consumer
        self._partition = partition
        self._planned = planned
        self._clock = clock
        self._taken = 0.0
        self._seconds = clock.lease_seconds
        self._before: int | None = None

    async def commit_plan(self) -> None:
        """Commit the plan, and with it begin the time anew. Raises `PartitionLost` and `StorageUnavailable`."""
        # Both read before the commit: measured after it, a clock would leave out how long the machine was suspended.
        ahead, taken = self._clock.ahead, self._clock.monotonic()
        self._before = None
        await self._consumer.commit(self._partition, self._planned)
        self._taken = taken
        self._seconds = self._clock.lease_seconds
        self._before = None if ahead is None else int(taken + ahead + self._seconds)

    async def before(self) -> int:
        """Return the deadline of an insert that is sent now: seconds since 1970 by the store's clock.

        Commits the plan again once half of the time is over, so that a chunk may take longer than that. Raises
        `PartitionLost` and `StorageUnavailable`.
        """
        while self._before is None or self._clock.monotonic() - self._taken > self._seconds / 2:
            await self._clock.measure()
            await self.commit_plan()
        return self._before


class LeasedStore:
    """The column store, for the inserts of one chunk under its lease."""

    def __init__(self, store: ColumnStore, lease: InsertLease, clock: StoreClock) -> None:
        self._store = store
        self._lease = lease
        self._clock = clock

    async def insert(self, table: str, lines: bytes, rows: int, token: str, before: int = 0) -> None:
        """Insert as the column store does, until the lease ends; raise `PartitionLost` after that."""
        async with self._clock.turns:
            before = await self._lease.before()
            sent = self._clock.monotonic()
            try:
                await self._store.insert(table, lines, rows, token, before)
            except InsertTooLate:
                self._clock.take_refusal(self._clock.monotonic() - sent)
                raise

    async def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> QueryResult:
        return await self._store.query(sql, parameters)

    async def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        await self._store.command(sql, parameters)

    async def close(self) -> None:
        """The store is its opener's."""
