"""The interface of the event log: appending for the edge, reading for the consumers."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from pipeline_contracts.records import LogRecord, Position


class EventLog(Protocol):
    """The writing side."""

    def append(self, topic: str, key: bytes, meta: bytes, value: bytes) -> "asyncio.Future[None]":
        """Append one record; the future completes when the record is durable. Records of one key stay in
        order; an empty key needs none.

        Raises `StorageUnavailable` (also as `LogFull`) when durability is in doubt, immediately or when awaited.
        Cancelling the waiting task does not withdraw the record.
        """
        ...

    def stalled_reason(self) -> str | None:
        """Return why the log accepts no records now; None while it does."""
        ...

    def stored_bytes(self) -> int:
        """Return the bytes of records that this process stores: in the embedded file, or waiting for the brokers."""
        ...

    async def close(self) -> None:
        """Flush appended records, then release the engine."""
        ...


class LogConsumer(Protocol):
    """The reading side: one consumer of one group on one topic."""

    claim_seconds: float
    """Interval of claims: how soon the consumer must learn that the log has reassigned partitions."""

    @property
    def log_id(self) -> str:
        """ID of this log's history, unique among all histories: (log ID, partition, offset) always identifies the same
        record."""
        ...

    async def claim(self) -> Mapping[int, Position]:
        """Return the partitions that this consumer owns now, each with its committed position. Raises `PartitionLost`
        once after the log has reassigned them: forget the earlier claim and claim again. Raises `StorageUnavailable`.
        """
        ...

    async def read(
        self, partition: int, start: int, end: int | None, max_bytes: int, wait: float
    ) -> Sequence[LogRecord]:
        """Return records from offset `start` in order, below `end` if given: about `max_bytes` of values at most, but
        at least one record. Waits up to `wait` seconds for the first record; returns none if none arrives.

        Raises `StorageUnavailable`; `PartitionLost` if another consumer owns the partition now; `RecordsRemoved` if the
        log has removed the record at `start`. A partition must have only one reader at a time.
        """
        ...

    async def commit(self, partition: int, position: Position) -> None:
        """Commit the position durably. Raises `PartitionLost` if another consumer owns the partition, and
        `StorageUnavailable`."""
        ...

    async def end(self, partition: int) -> int:
        """Return the offset after the last record, read from the log itself (an empty read proves nothing). Raises
        `StorageUnavailable` and `PartitionLost`."""
        ...

    async def backlog(self) -> int:
        """Return the number of records after the committed positions of this consumer's partitions."""
        ...

    async def close(self) -> None:
        """Release the partitions."""
        ...
