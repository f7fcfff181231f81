"""How long did telemetry wait to be stored, and how much of it could not be stored?"""

from typing import NamedTuple

from analytics_queries.telemetry.limited_sql import query_limited, read_limited_sql
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_sql(__file__)


class ReceiptsLag(NamedTuple):
    """The lag and the failures of the telemetry consumer, from the receipts of batches."""

    stored: int
    """Number of batches that were stored in the last minutes."""
    lag_ms: int
    """The longest time that one of these batches waited to be stored, in milliseconds."""
    failed: int
    """Number of batches that became dead letters in the longer time range."""


async def receipts_lag(store: ColumnStore, lag_seconds: int, failed_seconds: int) -> ReceiptsLag:
    """Return the lag of batches that were stored in the last `lag_seconds`, and the failures of the last
    `failed_seconds`. Only batches that were received in the last day count. Raises `StorageUnavailable`."""
    parameters = {"lag_seconds": lag_seconds, "failed_seconds": failed_seconds}
    return ReceiptsLag(*(await query_limited(store, _SQL, parameters)).rows[0])
