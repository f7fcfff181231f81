"""Defines chunks: records that a consumer plans, inserts and commits together. Also defines transforms, which make
rows of records."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from pipeline_contracts.records import LogRecord
from pipeline_contracts.settings import Settings
from storage_backends.column_store.interface import ColumnStore


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """The maximum size of a chunk, and how long to wait for more records."""

    rows: int
    bytes: int
    seconds: float

    @classmethod
    def from_settings(cls, settings: Settings) -> "ChunkLimits":
        return cls(settings.chunk_rows, settings.chunk_bytes, settings.chunk_seconds)


@dataclass(frozen=True, slots=True)
class Chunk:
    """The records of one partition from offset `start` (inclusive) to `end` (exclusive). `log` identifies the
    partition, also after its topic was recreated."""

    log: str
    start: int
    end: int
    records: Sequence[LogRecord]


Piece = tuple[bytes, int]
"""JSON lines, each ended by a newline, and the number of lines."""


class RecordRows(msgspec.Struct, frozen=True, gc=False):
    """The rows of one record in one table: JSON lines, each ended by a newline, and their number.

    The garbage collector does not track this object, so `generate` must not refer back to it.
    """

    offset: int
    lines: bytes
    rows: int
    generate: Callable[[], Iterator[Piece]] | None = None
    """Yields the lines piece by piece, each time the same rows in the same order. Set for a record that has too many
    rows to keep in memory; `lines` is then empty."""
    is_splittable: bool = False
    """True if each attempt makes the same rows: the number of rows in the table then shows which rows are missing. If
    False, a single row in the table means that the whole record is stored."""
    first_row: int = 0
    """How many rows of the record come before these rows. Above 0 for the second and later pieces of a record."""


@dataclass(frozen=True, slots=True)
class DeadRecord:
    """A record that can never be stored as rows, and the reason."""

    record: LogRecord
    reason: str


@dataclass(slots=True)
class ChunkRows:
    """The rows of a chunk by table, in the order in which they are inserted. Also its dead records, and the number of
    its duplicates."""

    tables: dict[str, list[RecordRows]] = field(default_factory=dict)
    dead: list[DeadRecord] = field(default_factory=list)
    duplicates: int = 0


class Transform(Protocol):
    """Turns the records of a topic into rows, and applies their other effects."""

    @property
    def topic(self) -> str: ...

    def weight(self, record: LogRecord) -> tuple[int, int]:
        """Return two numbers: the rows that the record becomes, and the table partition to which they go. All records
        of a chunk belong to the same table partition, so that an insert creates one data part. A record that cannot be
        read weighs (0, -1) and fits into any chunk."""
        ...

    async def update_state(self, chunk: Chunk, partition: int) -> None:
        """Apply the effects of the chunk outside the column store. This is called before the rows are made, and may be
        repeated for the same chunk. Raises `StorageUnavailable`."""
        ...

    @property
    def needs_caught_up(self) -> bool:
        """Return True if the loop should call `record_caught_up`. Each call costs one request to the log."""
        ...

    async def record_caught_up(self, partition: int, as_of_ms: int) -> None:
        """Record that no unread record was left in the partition at `as_of_ms` (milliseconds since 1970). Called about
        once a second. Raises `StorageUnavailable`."""
        ...

    async def make_rows(self, chunk: Chunk, store: ColumnStore) -> ChunkRows:
        """Return the rows of the chunk. Each attempt returns the same rows, whatever earlier attempts have inserted.
        Raises `StorageUnavailable`."""
        ...

    def report_refusal(self, record: LogRecord, reason: str, log: str) -> tuple[str, RecordRows] | None:
        """Return a table and a row that reports a record whose rows the store has refused. Return None if this topic
        has no such report."""
        ...


class RowsOnly:
    """Base class of transforms whose records only become rows, without other effects or reports."""

    needs_caught_up = False

    async def update_state(self, chunk: Chunk, partition: int) -> None:
        pass

    async def record_caught_up(self, partition: int, as_of_ms: int) -> None:
        pass

    def report_refusal(self, record: LogRecord, reason: str, log: str) -> tuple[str, RecordRows] | None:
        return None


Step = str
OnStep = Callable[[Step], Awaitable[None]]
"""A callback between the steps of the loop. Fault tests end the process there."""
