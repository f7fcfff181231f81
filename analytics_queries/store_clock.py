"""Reads the column store's clock."""

from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_sql

_SQL = read_sql(__file__)


async def store_time_ms(store: ColumnStore) -> int:
    """Return the current time of the store's clock, in milliseconds since 1970. Raises
    `StorageUnavailable`."""
    return int((await store.query(_SQL)).rows[0][0])
