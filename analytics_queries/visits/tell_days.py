"""Tells the visits of days, for reports to read: of a day that is over for good, of today until something new comes."""

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime

from analytics_queries.visits.calendar_days import utc_days_around, utc_days_of
from analytics_queries.visits.told_days import ToldDays, UntoldDay, told_days
from pipeline_contracts.times import to_epoch_ms
from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_statements

_SQL = read_statements(__file__)

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
        rows = {
            "table": "open_visit_days" if part[0].is_open else "visit_days",
            "site_id": site_id,
            "timezone": timezone,
            "days": of_part,
            "run": run,
            "own_days": utc_days_of(of_part, timezone),
            "read_days": utc_days_around(of_part, timezone),
            "now_ms": to_epoch_ms(now),
        }
        await store.command(_SQL["insert_visits"], rows)
        if not part[0].is_open:
            await store.command(_SQL["insert_lists"], {"site_id": site_id, "days": of_part, "run": run})
        marks = {
            "site_id": site_id,
            "timezone": timezone,
            "days": of_part,
            "run": run,
            "near": [one.near for one in part],
            "far": [one.far for one in part],
            "is_open": part[0].is_open,
        }
        await store.command(_SQL["insert_marks"], marks)
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
