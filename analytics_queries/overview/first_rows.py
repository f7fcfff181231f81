"""Has any telemetry event, OpenTelemetry record or page view of an account arrived?"""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from analytics_queries.telemetry.limited_sql import query_limited, read_limited_statements
from pipeline_contracts.times import from_epoch_ms
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_statements(__file__)
# The most common kinds come first, because the search ends at the first row.
_OTLP = ("spans", "log_records", "sums", "gauges", "histograms")


async def find_received(
    store: ColumnStore,
    what: Literal["events", "otlp", "pageviews"],
    *,
    environments: Sequence[str] = (),
    sites: Sequence[int] = (),
) -> datetime | None:
    """Return the time at which some row was received. None if nothing has arrived, or if all rows have
    expired.

    Raises `StorageUnavailable`.
    """
    parameters = {"sites": list(sites)} if what == "pageviews" else {"environments": list(environments)}
    for name in _OTLP if what == "otlp" else (what,):
        rows = (await query_limited(store, _SQL[name], parameters)).rows
        if rows:
            return from_epoch_ms(rows[0][0])
    return None
