"""Chunks: records that are planned, inserted and committed together, and the rows that a transform makes of them."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from pipeline_contracts.records import LogRecord
from pipeline_contracts.settings import Settings
from storage_backends.column_store.interface import ColumnStore


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """The largest size of a chunk, and the longest wait for more records."""

    rows: int
    bytes: int
    seconds: float

    @classmethod
    def from_settings(cls, settings: Settings) -> "ChunkLimits":
        return cls(settings.chunk_rows, settings.chunk_bytes, settings.chunk_seconds)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Records `[start, end)` of one partition. `log` identifies the partition in its log's whole history."""

    log: str
    start: int
    end: int
    records: Sequence[LogRecord]


Piece = tuple[bytes, int]
"""JSON lines, each ended by a newline, and their number."""


class RecordRows(msgspec.Struct, frozen=True, gc=False):
    """The rows of one record in one table: JSON lines, each ended by a newline, and their number.

    The garbage collector does not visit it: `generate` must not refer back to it.
    """

    offset: int
    lines: bytes
    rows: int
    generate: Callable[[], Iterator[Piece]] | None = None
    """Yields the lines piece by piece, the same rows in the same order each time. Set for a record with too many rows
    to keep in memory; `lines` is empty then."""
    is_splittable: bool = False
    """True if each attempt makes the same rows, so that the number of rows in the table shows which ones are missing.
    Otherwise any row in the table means that the whole record is stored."""
    first_row: int = 0
    """Position of the first of these rows among the record's rows: above 0 for a later piece of a record."""


@dataclass(frozen=True, slots=True)
class DeadRecord:
    """A record that can never be stored, with the reason."""

    record: LogRecord
    reason: str


@dataclass(slots=True)
class ChunkRows:
    """The rows of a chunk by table, in the order of insertion; its dead records; its number of duplicates."""

    tables: dict[str, list[RecordRows]] = field(default_factory=dict)
    dead: list[DeadRecord] = field(default_factory=list)
    duplicates: int = 0


class Transform(Protocol):
    """Turns the records of a topic into rows, and applies their other effects."""

    @property
    def topic(self) -> str: ...

    def weight(self, record: LogRecord) -> tuple[int, int]:
        """Return (number of rows, partition of the tables). All records of a chunk belong to one table partition, so
        that an insert creates one part. A record that cannot be read weighs (0, -1) and fits into any chunk."""
        ...

    async def update_state(self, chunk: Chunk, partition: int) -> None:
        """Apply the chunk's effects outside the column store, before its rows are made. Idempotent. Raises
        `StorageUnavailable`."""
        ...

    @property
    def needs_caught_up(self) -> bool:
        """True if the loop should call `record_caught_up`, which costs one request to the log each time."""
        ...

    async def record_caught_up(self, partition: int, as_of_ms: int) -> None:
        """Record that no unread record was left in the partition at `as_of_ms` (milliseconds since 1970). Called about
        once a second. Raises `StorageUnavailable`."""
        ...

    async def make_rows(self, chunk: Chunk, store: ColumnStore) -> ChunkRows:
        """Return the rows of the chunk: the same rows on each attempt, whatever earlier attempts have inserted. Raises
        `StorageUnavailable`."""
        ...

    def report_refusal(self, record: LogRecord, reason: str, log: str) -> tuple[str, RecordRows] | None:
        """Return a table and a row that reports a record whose rows the store has refused; None for no report."""
        ...


class RowsOnly:
    """Base of transforms whose records only become rows: no other effects, no reports."""

    needs_caught_up = False

    async def update_state(self, chunk: Chunk, partition: int) -> None:
        pass

    async def record_caught_up(self, partition: int, as_of_ms: int) -> None:
        pass

    def report_refusal(self, record: LogRecord, reason: str, log: str) -> tuple[str, RecordRows] | None:
        return None


Step = str
OnStep = Callable[[Step], Awaitable[None]]
"""Called between the steps of the loop; fault tests end the process there."""
