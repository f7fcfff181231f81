"""How many events of a site did the edges drop, by reason?"""

from collections.abc import Mapping
from datetime import datetime

from pipeline_contracts.times import to_epoch_ms
from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_sql

_SQL = read_sql(__file__)


async def dropped_events(store: ColumnStore, site_id: int, since: datetime) -> Mapping[str, int]:
    """Return the number of events that were dropped since `since`, by reason (`bot`, `opted_out`, …), the largest
    number first. These counts are kept for 90 days. Raises `StorageUnavailable`."""
    rows = (await store.query(_SQL, {"site_id": site_id, "since_ms": to_epoch_ms(since)})).rows
    return {reason: int(events) for reason, events in rows}
