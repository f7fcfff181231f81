"""The interface of consumers and queries to a column store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Rows of a query; values are Python's own types, times are aware UTC `datetime`s."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]

    def records(self) -> list[dict[str, Any]]:
        """Each row as a mapping by column."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


Lines = bytes | Sequence[bytes]
"""JSON objects, each ended by a newline: in one piece, or in pieces to send one after the other."""


def bytes_of(lines: Lines) -> int:
    """Return the number of bytes of all pieces."""
    return len(lines) if isinstance(lines, bytes) else sum(map(len, lines))


class ColumnStore(Protocol):
    """ClickHouse, as a server or in this process."""

    async def insert(self, table: str, lines: Lines, rows: int, token: str, before: int = 0) -> None:
        """Insert `rows` rows, one JSON object per line, as one block: all of them or none. A second insert with the
        same token into the same table is dropped. `before` is a deadline in seconds since 1970 by the store's clock: an
        insert that takes effect later is refused as a whole; 0: no deadline.

        Raises `StorageUnavailable` (also when the outcome is unknown; `InsertTooLate` is one) and `RowsRefused`."""
        ...

    async def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> QueryResult:
        """Run a reading query; the store binds `{name:Type}` in it. A cancelled call returns when the query has ended,
        at once if it has not started. Raises `StorageUnavailable`; `QueryRefused` for an invalid query."""
        ...

    async def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Run a statement of the schema or `INSERT … SELECT`; parameters and cancellation as in `query`. Raises
        `StorageUnavailable`."""
        ...

    async def close(self) -> None:
        """Wait for running statements, then release the engine."""
        ...


class QueryRefused(Exception):
    """The store rejected the query: an error in the query itself, so a retry fails too."""
