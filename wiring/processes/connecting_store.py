"""A column store that connects in the background, so that the control plane can serve requests from its database
meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from pipeline_contracts.errors import StorageUnavailable
from storage_backends.column_store.interface import ColumnStore, Lines, QueryResult
from wiring.processes.prerequisites import open_when_available


class ConnectingColumnStore:
    """A `ColumnStore` that is unavailable until the connection to the underlying store is open."""

    def __init__(self, open_store: Callable[[], Awaitable[ColumnStore]]) -> None:
        """Begin to open the store. Needs a running event loop."""
        self._opening = asyncio.create_task(open_when_available(open_store), name="column store")

    async def insert(self, table: str, lines: Lines, rows: int, token: str, before: int = 0) -> None:
        await self._opened().insert(table, lines, rows, token, before)

    async def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> QueryResult:
        return await self._opened().query(sql, parameters)

    async def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        await self._opened().command(sql, parameters)

    async def close(self) -> None:
        """Stop connecting, or close the store."""
        if self._opening.cancel():
            with suppress(asyncio.CancelledError):
                await self._opening
        else:
            await self._opening.result().close()

    def _opened(self) -> ColumnStore:
        if not self._opening.done():
            raise StorageUnavailable("The column store has not answered yet.")
        return self._opening.result()
