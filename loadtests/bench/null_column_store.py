"""A column store that discards all rows, so that only the consumer's own cost is measured."""

import time
from collections.abc import Mapping
from typing import Any

from storage_backends.column_store.interface import Lines, QueryResult

# More rows than any record has. With this number, a record counts as stored.
_ALL_ROWS = 2**31


class NullColumnStore:
    """Remembers the tokens of inserts, so that a consumer finds that its chunk is stored."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        """Number of inserted rows, by table."""
        self._tokens: set[str] = set()

    async def insert(self, table: str, lines: Lines, rows: int, token: str, before: int = 0) -> None:
        self.rows[table] = self.rows.get(table, 0) + rows
        self._tokens.add(token)

    async def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> QueryResult:
        if "now_ms" in sql:
            return QueryResult(("now_ms",), [[time.time_ns() // 1_000_000]])
        values = parameters or {}
        if "past_last" in values:
            first, past_last = values["first"], values["past_last"]
            table = f"{values['database']}.{values['table']}"
            is_stored = f"{values['log']}/{first}-{past_last}/{table}" in self._tokens
            offsets = list(range(first, past_last)) if is_stored else []
            return QueryResult(("offsets", "rows"), [[offsets, [_ALL_ROWS] * len(offsets)]])
        return QueryResult((), [])

    async def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        return None

    async def close(self) -> None:
        return None
