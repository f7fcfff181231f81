"""Insert leases: each insert of a consumer has a deadline, which the column store checks by its own clock.

A consumer may be frozen between the commit of its plan and its insert (a paused VM, SIGSTOP, a stalled network). When
it continues, another consumer may have stored the chunk so long ago that the store has forgotten the token. The store
would then store the rows twice. To prevent this, the store refuses an insert after its deadline.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from analytics_queries.store_clock import store_time_ms
from pipeline_contracts.errors import InsertTooLate
from pipeline_contracts.records import Position
from storage_backends.column_store.interface import ColumnStore, Lines, QueryResult
from storage_backends.event_log.interface import LogConsumer

# A table remembers 10,000 tokens. Within a lease, it can receive 500 inserts a second before it forgets a token.
LEASE_SECONDS = 20.0
# A store under load, or on a slow network, may need longer to read an insert: each refusal of a slow insert doubles
# the lease for some minutes, up to four times its normal length. 10,000 tokens then cover 125 inserts a second.
_MAX_LEASE_FACTOR = 4
_EXTENDED_SECONDS = 300.0
# The clocks are compared again after this time, because clocks drift, and the store's clock can be set back.
_REMEASURE_SECONDS = 300.0


class StoreClock:
    """Translates this machine's monotonic time into the column store's time, and never overestimates it."""

    def __init__(
        self,
        store: ColumnStore,
        lease_seconds: float = LEASE_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
        max_concurrent_inserts: int = 4,
    ) -> None:
        self._store = store
        self._base_seconds = lease_seconds
        self._lease_factor = 1
        self._extended_until = 0.0
        self.insert_slots = asyncio.Semaphore(max_concurrent_inserts)
        """Limits concurrent inserts. An insert gets its deadline after it has waited here: otherwise a slow store
        would refuse it."""
        self._offset_seconds = 0.0
        self._measured_at: float | None = None
        self.monotonic = monotonic

    @property
    def lease_seconds(self) -> float:
        """Return the length in seconds of a lease that begins now."""
        is_extended = self.monotonic() < self._extended_until
        return self._base_seconds * (self._lease_factor if is_extended else 1)

    @property
    def offset_seconds(self) -> float | None:
        """Return a lower bound of the store's time minus this machine's monotonic time, in seconds. None if it must be
        measured first."""
        if self._measured_at is None or self.monotonic() - self._measured_at > _REMEASURE_SECONDS:
            return None
        return self._offset_seconds

    async def measure(self) -> None:
        """Read the store's time, unless it was measured recently. Raises `StorageUnavailable`."""
        if self.offset_seconds is not None:
            return
        started = self.monotonic()
        store_ms = await store_time_ms(self._store)
        # The store read its clock before its response arrived, so the offset is a lower bound. The monotonic clock of
        # a suspended machine may stand still. Deadlines are then too early, inserts are refused, and the offset is
        # measured again.
        self._offset_seconds = store_ms / 1000 - self.monotonic()
        self._measured_at = started

    def record_late_insert(self, seconds: float) -> None:
        """Record that the store refused an insert as too late, `seconds` after it was sent.

        The store's time is then measured again. If the store was slow, leases also get longer: otherwise the store
        would refuse the same insert forever.
        """
        self._measured_at = None
        lease = self.lease_seconds
        # At least half of the lease is left when an insert is sent. If an insert is refused earlier, the clocks
        # differ.
        if seconds > lease / 4:
            self._lease_factor = min(_MAX_LEASE_FACTOR, 2 * round(lease / self._base_seconds))
            self._extended_until = self.monotonic() + _EXTENDED_SECONDS


class InsertLease:
    """The right to insert one planned chunk, for the seconds of a lease from the commit of its plan.

    The log refuses a commit for a partition that belongs to another consumer, so only one consumer has the right.
    """

    def __init__(self, consumer: LogConsumer, partition: int, planned: Position, clock: StoreClock) -> None:
        self._consumer = consumer
        self._partition = partition
        self._planned = planned
        self._clock = clock
        self._started = 0.0
        self._seconds = clock.lease_seconds
        self._deadline: int | None = None

    async def commit_plan(self) -> None:
        """Commit the plan and restart the lease. Raises `PartitionLost` and `StorageUnavailable`."""
        # Read the clock before the commit: a time that is read afterwards would ignore that the machine was suspended
        # during the commit.
        offset, started = self._clock.offset_seconds, self._clock.monotonic()
        self._deadline = None
        await self._consumer.commit(self._partition, self._planned)
        self._started = started
        self._seconds = self._clock.lease_seconds
        self._deadline = None if offset is None else int(started + offset + self._seconds)

    async def deadline(self) -> int:
        """Return the deadline of an insert that is sent now: seconds since 1970 by the store's clock.

        After half of the lease, this commits the plan again, so that a chunk may take longer than one lease. Raises
        `PartitionLost` and `StorageUnavailable`.
        """
        while self._deadline is None or self._clock.monotonic() - self._started > self._seconds / 2:
            await self._clock.measure()
            await self.commit_plan()
        return self._deadline


class LeasedStore:
    """The column store, with the lease of one chunk as the deadline of each insert."""

    def __init__(self, store: ColumnStore, lease: InsertLease, clock: StoreClock) -> None:
        self._store = store
        self._lease = lease
        self._clock = clock

    async def insert(self, table: str, lines: Lines, rows: int, token: str, before: int = 0) -> None:
        """Insert within the lease. Raises `PartitionLost` if another consumer has the partition, `InsertTooLate` after
        the deadline, and the errors of the column store."""
        async with self._clock.insert_slots:
            before = await self._lease.deadline()
            sent = self._clock.monotonic()
            try:
                await self._store.insert(table, lines, rows, token, before)
            except InsertTooLate:
                self._clock.record_late_insert(self._clock.monotonic() - sent)
                raise

    async def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> QueryResult:
        return await self._store.query(sql, parameters)

    async def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        await self._store.command(sql, parameters)

    async def close(self) -> None:
        """Do nothing. The function that opened the store closes it."""
