"""The interface through which consumers and queries use a column store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class QueryResult:
    """The rows of a query result. Values have Python's own types; times are aware UTC `datetime`s."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]

    def records(self) -> list[dict[str, Any]]:
        """Return each row as a mapping from column name to value."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


Lines = bytes | Sequence[bytes]
"""JSON objects, each ended by a newline: either in one piece, or in pieces that are sent one after the other."""


def bytes_of(lines: Lines) -> int:
    """Return the number of bytes of all pieces together."""
    return len(lines) if isinstance(lines, bytes) else sum(map(len, lines))


class ColumnStore(Protocol):
    """A ClickHouse store, as a server or embedded in this process."""

    async def insert(self, table: str, lines: Lines, rows: int, token: str, before: int = 0) -> None:
        """Insert `rows` rows, one JSON object per line, as one block: all of them or none. A second insert with the
        same token into the same table is dropped. `before` is a deadline in seconds since 1970 by the store's clock: an
        insert that takes effect later is refused as a whole. 0: no deadline.

        Raises `StorageUnavailable` (also if the outcome is unknown; `InsertTooLate` is a subclass) and
        `RowsRefused`."""
        ...

    async def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> QueryResult:
        """Run a reading query, with `parameters` bound to its `{name:Type}` placeholders. A cancelled call returns when
        the query has ended, or at once if the query has not started. Raises `StorageUnavailable`, and `QueryRefused`
        for an invalid query."""
        ...

    async def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Run a statement of the schema, or an `INSERT … SELECT`. Parameters and cancellation work as in `query`.
        Raises `StorageUnavailable`."""
        ...

    async def close(self) -> None:
        """Wait for running statements, then release the engine."""
        ...


class QueryRefused(Exception):
    """The store rejected the query because the query itself has an error, so a retry fails too."""
