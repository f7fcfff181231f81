"""How many visitors are on sites now?"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from analytics_queries.telemetry.limited_sql import query_limited, read_limited_sql
from pipeline_contracts.times import to_epoch_ms
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_sql(__file__)

PRESENT = timedelta(minutes=5)
"""How long after an event a visitor counts as present on a site."""


async def current_visitors(store: ColumnStore, site_ids: Sequence[int], now: datetime) -> Mapping[int, int]:
    """Return the number of visitors with an event in the last 5 minutes, by site. Sites without visitors are
    left out. Raises `StorageUnavailable`."""
    since = now - PRESENT
    parameters = {"site_ids": list(site_ids), "since": since.date(), "since_ms": to_epoch_ms(since)}
    return {
        int(site): int(visitors) for site, visitors in (await query_limited(store, _SQL, parameters)).rows
    }
