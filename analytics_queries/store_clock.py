"""Reads the column store's clock."""

from analytics_queries.sql_text import sql_beside
from storage_backends.column_store.interface import ColumnStore

_SQL = sql_beside(__file__)


async def store_time_ms(store: ColumnStore) -> int:
    """Return the store's own time, in milliseconds since 1970. Raises `StorageUnavailable`."""
    return int((await store.query(_SQL)).rows[0][0])
