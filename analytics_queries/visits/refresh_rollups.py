"""Computes and stores daily rollups. A rollup of a past day stays; a rollup of an unfinished day is valid until new
events arrive."""

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta

from analytics_queries.telemetry.limited_sql import command_limited
from analytics_queries.visits.calendar_days import utc_days_around, utc_days_of
from analytics_queries.visits.daily_rollups import DailyRollups, StaleRollup, check_rollups
from analytics_queries.visits.refresh_today import insert_visits_of_today
from pipeline_contracts.times import to_epoch_ms
from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_statements

_SQL = read_statements(__file__)

# Limits of one statement, which groups its events in memory. The events of a day include those of the days before and
# after it.
_MOST_EVENTS = 2_000_000
_MOST_DAYS = 31
# By then, all queries that read the rows of a superseded run have ended.
_KEEP_SUPERSEDED = timedelta(hours=1)


async def refresh_rollups(
    store: ColumnStore, site_id: int, timezone: str, days: Sequence[date], now: datetime
) -> Mapping[date, int]:
    """Return the current runs of `days`, with all events before `now`. Stale rollups are computed first.

    Several processes may refresh the same days at the same time, and may stop at any point, because readers read only
    one run of each day. Raises `StorageUnavailable`.
    """
    rollups = await check_rollups(store, site_id, timezone, days, now)
    return await refresh_stale_rollups(store, site_id, timezone, rollups, now)


async def refresh_stale_rollups(
    store: ColumnStore, site_id: int, timezone: str, rollups: DailyRollups, now: datetime
) -> Mapping[date, int]:
    """Compute the stale rollups in `rollups`, and return the current runs of all days in it.

    Raises `StorageUnavailable`, also if the request has used up its time (`share_time`). Rollups that are computed by
    then stay stored.
    """
    runs = dict(rollups.runs)
    for part in _parts(rollups):
        # This number differs from the runs of any other process.
        run = time.time_ns()
        days = [rollup.day for rollup in part]
        is_open = part[0].is_open
        if is_open:
            await insert_visits_of_today(store, site_id, timezone, part[0], run + 1, now)
        else:
            await _insert_finished_days(store, site_id, timezone, days, run, now)
        marks = {
            "site_id": site_id,
            "timezone": timezone,
            "days": days,
            "run": run,
            "near": [rollup.near for rollup in part],
            "far": [rollup.far for rollup in part],
            "is_open": is_open,
        }
        await command_limited(store, _SQL["insert_marks"], marks, is_large=True)
        runs |= {day: run + number for number, day in enumerate(days, start=1)}
    return runs


async def _insert_finished_days(
    store: ColumnStore, site_id: int, timezone: str, days: Sequence[date], run: int, now: datetime
) -> None:
    visits = {
        "site_id": site_id,
        "timezone": timezone,
        "days": days,
        "run": run,
        "own_days": utc_days_of(days, timezone),
        "read_days": utc_days_around(days, timezone),
        "now_ms": to_epoch_ms(now),
    }
    await command_limited(store, _SQL["insert_visits"], visits, is_large=True)
    lists = {"site_id": site_id, "days": days, "run": run}
    await command_limited(store, _SQL["insert_lists"], lists, is_large=True)


def _parts(rollups: DailyRollups) -> Iterator[list[StaleRollup]]:
    """Yield lists of stale rollups. One statement computes all rollups of a list. An unfinished day has a list of its
    own."""
    part: list[StaleRollup] = []
    events = 0
    for rollup in rollups.stale:
        if part and (events + rollup.far > _MOST_EVENTS or len(part) == _MOST_DAYS or rollup.is_open):
            yield part
            part, events = [], 0
        part.append(rollup)
        events += rollup.far
    if part:
        yield part


async def remove_superseded(store: ColumnStore, now: datetime) -> None:
    """Remove the rows of superseded runs of all sites. Raises `StorageUnavailable`."""
    before = to_epoch_ms(now - _KEEP_SUPERSEDED) * 1_000_000
    for table in ("visit_days", "visit_day_lists", "visit_day_figures", "visit_day_events"):
        await store.command(_SQL["delete_superseded"], {"table": table, "before": before})
