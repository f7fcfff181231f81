"""A column store that takes everything and keeps nothing: behind it, the consumer's own cost is left."""

from collections.abc import Mapping
from typing import Any

from storage_backends.column_store.interface import QueryResult


class NullColumnStore:
    """Answers every query with no rows."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        """Rows inserted, by table."""

    async def insert(self, table: str, lines: bytes, rows: int, token: str) -> None:
        self.rows[table] = self.rows.get(table, 0) + rows

    async def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> QueryResult:
        return QueryResult((), [])

    async def command(self, sql: str) -> None:
        return None

    async def close(self) -> None:
        return None
