"""How slow were sites in the last day, by their Web Vitals?"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import NamedTuple

from analytics_queries.alerts.recent_time import recent_time
from analytics_queries.telemetry.limited_sql import query_limited, read_limited_sql
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_sql(__file__)
_DAY_MINUTES = 24 * 60
# If a site has more events a day than this, only some of its visits are read.
_READ_EVENTS = 200_000


class VitalFigures(NamedTuple):
    """The 75th percentile of a Web Vital, in the unit of this Web Vital, and the number of
    measurements."""

    p75: float
    measurements: int


async def site_vitals(
    store: ColumnStore, events: Mapping[int, int], vitals: Collection[str], end: datetime, least: int
) -> Mapping[tuple[int, str], VitalFigures]:
    """Return the figures by site and Web Vital that have at least `least` measurements in the last
    day.

    `events`: the approximate number of events of each site per day. Raises `StorageUnavailable`.
    """
    if not events:
        return {}
    parameters = {
        "sites": list(events),
        "shares": [max(1, number // _READ_EVENTS) for number in events.values()],
        "vitals": sorted(vitals),
        "least": least,
        **recent_time(end, _DAY_MINUTES),
    }
    rows = (await query_limited(store, _SQL, parameters)).rows
    return {(site, vital): VitalFigures(p75, number) for site, vital, p75, number in rows}
