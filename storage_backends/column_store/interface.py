"""What the consumers and the queries need of a column store."""

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


class ColumnStore(Protocol):
    """ClickHouse, as a server or in this process."""

    async def insert(self, table: str, lines: bytes, rows: int, token: str, before: int = 0) -> None:
        """Insert `rows` rows, JSON objects one a line, as one block: all of them or none. A second insert with the
        same token into the same table is dropped. An insert that is there only at `before` (seconds since 1970 by the
        store's clock) or later is refused as a whole; 0: never.

        Raises `StorageUnavailable` (also when the outcome is unknown; `InsertTooLate` among it) and `RowsRefused`."""
        ...

    async def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> QueryResult:
        """Run a reading query; `{name:Type}` in it is bound on the server's side. A call that is cancelled returns when
        the query has ended, at once if it has not begun. Raises `StorageUnavailable`; `QueryRefused` for a query that
        is wrong."""
        ...

    async def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        """Run a statement of the schema, or one that makes rows of rows; parameters and cancellation as in `query`.
        Raises `StorageUnavailable`."""
        ...

    async def close(self) -> None:
        """Finish what runs, then release the engine."""
        ...


class QueryRefused(Exception):
    """The store understood the query and will not run it: a fault of the query's author."""
