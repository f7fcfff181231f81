"""Removes what was told of days and has been told anew since."""

from datetime import datetime, timedelta

from pipeline_contracts.times import to_epoch_ms
from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_sql

_SQL = read_sql(__file__)
_KEPT = timedelta(hours=1)


async def remove_superseded(store: ColumnStore, now: datetime) -> None:
    """Of all sites. Raises `StorageUnavailable`."""
    before = to_epoch_ms(now - _KEPT) * 1_000_000
    for table in ("visit_days", "visit_day_lists"):
        await store.command(_SQL, {"table": table, "before": before})
