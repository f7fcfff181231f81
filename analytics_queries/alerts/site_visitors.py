"""How many visitors do sites have now, and how many do they usually have at this time of the day?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from analytics_queries.alerts.recent_time import recent_time
from analytics_queries.telemetry.limited_sql import query_limited, read_limited_statements
from analytics_queries.telemetry.time_range import to_nanoseconds
from pipeline_contracts.times import to_epoch_ms
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_statements(__file__)
_HOUR = timedelta(hours=1)
USUAL_DAYS = 7
WINDOW = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class RecentVisitors:
    """A site's number of visitors in the last ten minutes, and its number of events in the last hour."""

    visitors: int = 0
    events: int = 0


@dataclass(frozen=True, slots=True)
class UsualVisitors:
    """The visitors of a site in the same hour of each of the last days."""

    visits: Sequence[int]
    """Number of visits that began in the hour, for each day, yesterday first."""
    of_window: float
    """The average number of visits that are active within ten minutes."""


async def events_of_days(store: ColumnStore, first: date) -> Mapping[int, Mapping[date, int]]:
    """Return the number of events by site and by day (UTC), since the day `first`. Raises `StorageUnavailable`."""
    sql = _SQL["events_of_days"]
    rows = (await query_limited(store, sql, {"first": first}, uses_projections=True)).rows
    return {site: dict(zip(days, events, strict=True)) for site, days, events in rows}


async def recent_visitors(
    store: ColumnStore, sites: Sequence[int], end: datetime
) -> Mapping[int, RecentVisitors]:
    """Return the recent visitors of these sites, up to `end`. Sites without events in the last hour are left out.
    Raises `StorageUnavailable`."""
    if not sites:
        return {}
    parameters = {
        "sites": sites,
        "hour_us": to_nanoseconds(end - _HOUR) // 1000,
        **recent_time(end, int(WINDOW / timedelta(minutes=1))),
    }
    rows = (await query_limited(store, _SQL["recent"], parameters)).rows
    return {site: RecentVisitors(visitors, events) for site, visitors, events in rows}


async def usual_visitors(
    store: ColumnStore, timezones: Mapping[int, str], end: datetime
) -> Mapping[int, UsualVisitors]:
    """Return the visitors in the hour before `end` on each of the last days. `timezones`: the time zone of each site
    to read. Sites without rollups of these days are left out. Raises `StorageUnavailable`."""
    if not timezones:
        return {}
    parameters = {
        "sites": list(timezones),
        "timezones": list(timezones.values()),
        "days": USUAL_DAYS,
        "first": (end - timedelta(days=USUAL_DAYS + 1)).date(),
        "end_ms": to_epoch_ms(end),
        "window_ms": int(WINDOW / timedelta(milliseconds=1)),
    }
    windows = USUAL_DAYS * (_HOUR / WINDOW)
    rows = (await query_limited(store, _SQL["usual"], parameters)).rows
    return {site: UsualVisitors(visits, present / windows) for site, visits, present in rows}
