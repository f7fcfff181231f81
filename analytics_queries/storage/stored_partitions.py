"""How many rows and bytes does each partition of each table have?"""

from collections.abc import Sequence
from typing import NamedTuple

from analytics_queries.telemetry.limited_sql import query_limited, read_limited_sql
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_sql(__file__)


class StoredPartition(NamedTuple):
    """One partition of a table: its number of rows, and its compressed size on disk in bytes."""

    table: str
    partition_id: str
    rows: int
    bytes: int


async def stored_partitions(store: ColumnStore) -> Sequence[StoredPartition]:
    """Return the partitions of the server that executes the query. Raises `StorageUnavailable`."""
    return [StoredPartition(*row) for row in (await query_limited(store, _SQL, {})).rows]
