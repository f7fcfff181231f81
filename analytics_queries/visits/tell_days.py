"""Tells the visits of days, for reports to read: of a day that is over for good, of today until something new comes."""

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime

from analytics_queries.visits.lists import lists_of
from analytics_queries.visits.told_days import ToldDays, UntoldDay, told_days
from analytics_queries.visits.visit_days import VISIT_DAYS, VisitDays
from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_sql

_TOLD = """(
    SELECT * FROM pharos.visit_days
    WHERE site_id = {site_id:UInt64} AND day IN {days:Array(Date)}
        AND run > {run:UInt64} AND run <= {run:UInt64} + length({days:Array(Date)})
)"""
_SQL = read_sql(__file__).replace("{{visit_days}}", VISIT_DAYS)
_ROWS, _LISTS, _MARK = _SQL.replace("{{lists}}", lists_of(_TOLD, by_day=True)).split(";\n")[:3]
_OVER, _OPEN = (_ROWS.replace("{{table}}", table) for table in ("visit_days", "open_visit_days"))

# Told at once, since they are grouped in memory. Each day counts with those around it, which are read for it.
_MOST_EVENTS = 2_000_000
_MOST_DAYS = 31


async def tell_days(
    store: ColumnStore, site_id: int, timezone: str, days: Sequence[date], now: datetime
) -> Mapping[date, int]:
    """The runs that tell of `days` with all events before `now`; what is not told yet is told first.

    May be done by several processes at once, and cut short anywhere: what was told twice is read once. Raises
    `StorageUnavailable`.
    """
    found = await told_days(store, site_id, timezone, days, now)
    return await tell_untold(store, site_id, timezone, found, now)


async def tell_untold(
    store: ColumnStore, site_id: int, timezone: str, found: ToldDays, now: datetime
) -> Mapping[date, int]:
    """The same, where it was asked already how the days stand."""
    runs = dict(found.runs)
    for part in _parts(found):
        # Unlike any other process's: the rows of a run are told apart by it.
        run = time.time_ns()
        of_part = [one.day for one in part]
        rows = VisitDays(site_id, timezone, of_part, now).parameters()
        if part[0].is_open:
            await store.command(_OPEN, {**rows, "run": run})
        else:
            await store.command(_OVER, {**rows, "run": run})
            await store.command(_LISTS, {"site_id": site_id, "days": of_part, "run": run})
        marks = {
            "site_id": site_id,
            "timezone": timezone,
            "days": of_part,
            "run": run,
            "near": [one.near for one in part],
            "far": [one.far for one in part],
            "is_open": part[0].is_open,
        }
        await store.command(_MARK, marks)
        runs |= {day: run + number for number, day in enumerate(of_part, start=1)}
    return runs


def _parts(found: ToldDays) -> Iterator[list[UntoldDay]]:
    part: list[UntoldDay] = []
    events = 0
    for one in found.untold:
        if part and (
            events + one.far > _MOST_EVENTS or len(part) == _MOST_DAYS or one.is_open != part[0].is_open
        ):
            yield part
            part, events = [], 0
        part.append(one)
        events += one.far
    if part:
        yield part
