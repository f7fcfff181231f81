"""What the edge and the consumers need of an event log."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol

from pipeline_contracts.records import LogRecord, Position


class EventLog(Protocol):
    """The writing side."""

    def append(self, topic: str, key: bytes, meta: bytes, value: bytes) -> Awaitable[None]:
        """Add one record; the awaitable ends when it is durable. Records of one key stay in order.

        Raises `StorageUnavailable` (`LogFull` among it) when durability is in doubt: at once, or when awaited.
        Cancelling the waiting task does not take the record back.
        """
        ...

    def stalled_reason(self) -> str | None:
        """Why the log takes nothing now; None while it does."""
        ...

    def stored_bytes(self) -> int:
        """Bytes of records that this process holds: in the embedded file, or waiting for the brokers."""
        ...

    async def close(self) -> None:
        """Write out what was appended, then release the engine."""
        ...


class LogConsumer(Protocol):
    """The reading side: one consumer of one group on one topic."""

    @property
    def log_id(self) -> str:
        """Names this log's history: another history never has the same ID, so (log ID, partition, offset)
        names a record for good."""
        ...

    async def claim(self) -> Mapping[int, Position]:
        """The partitions that are this consumer's now, each with its committed position. Raises `PartitionLost`
        once when they were handed out anew: forget what was claimed before and claim again. Raises
        `StorageUnavailable`."""
        ...

    async def read(
        self, partition: int, start: int, end: int | None, max_bytes: int, wait: float
    ) -> Sequence[LogRecord]:
        """Records from `start` in order, below `end` if given, about `max_bytes` of values at most but one
        at least. Waits up to `wait` seconds for the first; empty when none came. Raises
        `StorageUnavailable`; `PartitionLost` when the partition is another consumer's now; `RecordsGone` when the
        log has removed what stood at `start`. One reader a partition at a time."""
        ...

    async def commit(self, partition: int, position: Position) -> None:
        """Write the position down, durably. Raises `PartitionLost` when another consumer has the partition,
        `StorageUnavailable` when the log is away."""
        ...

    async def end(self, partition: int) -> int:
        """The offset behind the last record that the log has now: asked of the log itself, which an empty read does
        not do. Raises `StorageUnavailable` and `PartitionLost`."""
        ...

    async def backlog(self) -> int:
        """Records behind the committed positions of this consumer's partitions."""
        ...

    async def close(self) -> None:
        """Give the partitions back."""
        ...
