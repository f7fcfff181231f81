"""How long did telemetry wait to be stored, and how much of it could not be stored?"""

from typing import NamedTuple

from analytics_queries.telemetry.limited_sql import query_limited, read_limited_sql
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_sql(__file__)


class ReceiptsLag(NamedTuple):
    """What the receipts of batches tell about the consumer of telemetry."""

    stored: int
    """Batches that were stored in the last minutes."""
    lag_ms: int
    """The longest that one of them has waited, in milliseconds."""
    failed: int
    """Batches of the longer time that became dead letters."""


async def receipts_lag(store: ColumnStore, lag_seconds: int, failed_seconds: int) -> ReceiptsLag:
    """Return the lag of what was stored in the last `lag_seconds`, and the failures of the last `failed_seconds`, of
    batches that were received in the last day. Raises `StorageUnavailable`."""
    parameters = {"lag_seconds": lag_seconds, "failed_seconds": failed_seconds}
    return ReceiptsLag(*(await query_limited(store, _SQL, parameters)).rows[0])
