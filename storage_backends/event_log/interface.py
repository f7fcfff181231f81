"""The interface of the event log: the edge appends records, and consumers read them."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Protocol

from pipeline_contracts.records import LogRecord, Position


class EventLog(Protocol):
    """The part of the event log that appends records."""

    def append(self, topic: str, key: bytes, meta: bytes, value: bytes) -> "asyncio.Future[None]":
        """Append one record; the future completes when the record is durable. Records with the same key stay in order.
        Records with an empty key may be reordered.

        Raises `StorageUnavailable` (also as `LogFull`) if the record may not be durable, immediately or when the future
        is awaited. Cancelling the waiting task does not withdraw the record.
        """
        ...

    def stalled_reason(self) -> str | None:
        """Return why the log accepts no records now; None while it does."""
        ...

    def stored_bytes(self) -> int:
        """Return the bytes of the records that this process holds: in the embedded log's file, or waiting for the
        brokers."""
        ...

    async def close(self) -> None:
        """Flush appended records, then release the engine."""
        ...


class LogConsumer(Protocol):
    """The part of the event log that reads records: one consumer of a group, on one topic."""

    claim_seconds: float
    """Seconds between two calls of `claim`, so that the consumer learns soon that the log has reassigned partitions."""

    @property
    def log_id(self) -> str:
        """The ID of this log's history, unique among all histories. (log ID, partition, offset) always identifies the
        same record."""
        ...

    async def claim(self) -> Mapping[int, Position]:
        """Return the partitions that this consumer owns now, each with its committed position. After the log has
        reassigned partitions, raise `PartitionLost` once: the caller must then forget the earlier claim and claim
        again. Raises `StorageUnavailable`."""
        ...

    async def read(
        self, partition: int, start: int, end: int | None, max_bytes: int, wait: float
    ) -> Sequence[LogRecord]:
        """Return records from offset `start` on, in order, and before offset `end` if it is given. Returns about
        `max_bytes` of values at most, but at least one record. Waits up to `wait` seconds for the first record. Returns
        an empty sequence if no record arrives.

        Raises `StorageUnavailable`; `PartitionLost` if another consumer owns the partition now; `RecordsRemoved` if the
        log has removed the record at `start`. A partition must have only one reader at a time.
        """
        ...

    async def commit(self, partition: int, position: Position) -> None:
        """Commit the position durably. Raises `PartitionLost` if another consumer owns the partition, and
        `StorageUnavailable`."""
        ...

    async def end(self, partition: int) -> int:
        """Return the offset after the last record. The offset is read from the log itself, because an empty `read` does
        not prove that no record is left. Raises `StorageUnavailable` and `PartitionLost`."""
        ...

    async def backlog(self) -> int:
        """Return the number of records after the committed positions of this consumer's partitions."""
        ...

    async def close(self) -> None:
        """Release the partitions, so that other consumers can claim them."""
        ...
