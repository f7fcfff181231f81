"""How much space do the disks of the column store have?"""

from collections.abc import Sequence
from typing import NamedTuple

from analytics_queries.telemetry.limited_sql import query_limited, read_limited_sql
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_sql(__file__)


class DiskSpace(NamedTuple):
    """Free and total space of a disk in bytes."""

    name: str
    free: int
    total: int


async def disk_space(store: ColumnStore) -> Sequence[DiskSpace]:
    """Return the disks of the server that executes the query. Raises `StorageUnavailable`."""
    return [DiskSpace(*row) for row in (await query_limited(store, _SQL, {})).rows]
