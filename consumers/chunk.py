"""A chunk: the records that are planned, inserted and committed together, and the rows that they become."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from pipeline_contracts.records import LogRecord
from pipeline_contracts.settings import Settings
from storage_backends.column_store.interface import ColumnStore


@dataclass(frozen=True, slots=True)
class ChunkLimits:
    """How large a chunk grows, and how long it is waited for."""

    rows: int
    bytes: int
    seconds: float

    @classmethod
    def from_settings(cls, settings: Settings) -> "ChunkLimits":
        return cls(settings.chunk_rows, settings.chunk_bytes, settings.chunk_seconds)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Records `[start, end)` of one partition; `log` names the partition for good."""

    log: str
    start: int
    end: int
    records: Sequence[LogRecord]


Piece = tuple[bytes, int]
"""JSON lines, each ended by a newline, and their number."""


class RecordRows(NamedTuple):
    """What one record becomes in one table: JSON lines (each ended by a newline) and their number."""

    offset: int
    lines: bytes
    rows: int
    make: Callable[[], Iterator[Piece]] | None = None
    """Makes the lines piece by piece, always the same rows in the same order. For a record whose rows are not to be
    held in memory all at once; `lines` is empty then."""
    is_splittable: bool = False
    """True if the record always becomes the same rows, so that the number of rows in the table says which ones are
    missing. Otherwise any row in the table means that the record is stored."""
    first: int = 0
    """Rows of the record that come before these: more than 0 for a later piece of a record."""


@dataclass(frozen=True, slots=True)
class DeadRecord:
    """A record that can never be stored, and why."""

    record: LogRecord
    reason: str


@dataclass(slots=True)
class ChunkRows:
    """The rows of a chunk by table, in the order of insertion, and the records that have none."""

    tables: dict[str, list[RecordRows]] = field(default_factory=dict)
    dead: list[DeadRecord] = field(default_factory=list)
    duplicates: int = 0


class Transform(Protocol):
    """What a topic's records become."""

    @property
    def topic(self) -> str: ...

    def weight(self, record: LogRecord) -> tuple[int, int]:
        """(rows, partition of the tables) of a record. A chunk keeps to one partition of the tables, so that
        its insert is one part; a record that cannot be read weighs (0, -1) and fits anywhere."""
        ...

    async def apply(self, chunk: Chunk, partition: int) -> None:
        """Change what the chunk changes beside rows, before they are made. Doing it again changes nothing more.
        Raises `StorageUnavailable`."""
        ...

    @property
    def follows_time(self) -> bool:
        """Whether it wants to be told by `caught_up`, which costs a question to the log."""
        ...

    async def caught_up(self, partition: int, as_of_ms: int) -> None:
        """Nothing was left to read in the partition when the log was asked, at this time (milliseconds since 1970).
        Called about once a second. Raises `StorageUnavailable`."""
        ...

    async def rows(self, chunk: Chunk, store: ColumnStore) -> ChunkRows:
        """The rows of the chunk, if it has any. The same chunk gives the same rows, whatever was inserted of it before.
        Raises `StorageUnavailable`."""
        ...

    def refused(self, record: LogRecord, reason: str, log: str) -> tuple[str, RecordRows] | None:
        """What is told of a record whose rows the store has refused: a table and its row, if anything."""
        ...


Step = str
OnStep = Callable[[Step], Awaitable[None]]
"""Called between the steps of the loop; fault tests end the process there."""
