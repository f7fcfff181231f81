"""Has any telemetry event, OpenTelemetry record or page view of an account arrived?"""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from analytics_queries.telemetry.limited_sql import query_limited, read_limited_statements
from pipeline_contracts.times import from_epoch_ms
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_statements(__file__)
# The ones that most accounts have come first.
_OTLP = ("spans", "log_records", "sums", "gauges", "histograms")


async def find_received(
    store: ColumnStore,
    what: Literal["events", "otlp", "pageviews"],
    *,
    environments: Sequence[str] = (),
    sites: Sequence[int] = (),
) -> datetime | None:
    """Return when a row was received, any of them; None if nothing has arrived, or all was removed by its age.

    Raises `StorageUnavailable`.
    """
    parameters = {"sites": list(sites)} if what == "pageviews" else {"environments": list(environments)}
    for name in _OTLP if what == "otlp" else (what,):
        rows = (await query_limited(store, _SQL[name], parameters)).rows
        if rows:
            return from_epoch_ms(rows[0][0])
    return None
