"""How many page views does each site have of each day?"""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import NamedTuple

from analytics_queries.telemetry.limited_sql import query_limited, read_limited_sql
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_sql(__file__)
# With this number, the parameter stays below the server's limit of 256 KiB for a form value.
_BATCH = 10_000


class DayOfSite(NamedTuple):
    """One site, and one calendar day (UTC)."""

    site_id: int
    day: date


async def pageviews_by_day(
    store: ColumnStore, site_ids: Sequence[int], since: date
) -> Mapping[DayOfSite, int]:
    """Return the number of page views by site and day of the view, since the day `since`. Days
    without page views are left out.

    Raises `StorageUnavailable`.
    """
    found: dict[DayOfSite, int] = {}
    for begin in range(0, len(site_ids), _BATCH):
        parameters = {"site_ids": list(site_ids[begin : begin + _BATCH]), "since": since}
        for site_id, day, views in (await query_limited(store, _SQL, parameters)).rows:
            found[DayOfSite(site_id, day)] = int(views)
    return found
