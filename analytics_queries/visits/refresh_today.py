"""Computes the rollup of an unfinished day. Only visits whose events have changed since the previous run are
computed again."""

from datetime import datetime

from analytics_queries.telemetry.limited_sql import command_limited
from analytics_queries.visits.calendar_days import utc_days_around, utc_days_of
from analytics_queries.visits.daily_rollups import StaleRollup
from pipeline_contracts.times import to_epoch_ms
from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_statements

_SQL = read_statements(__file__)
_SETTINGS = ("enable_materialized_cte = 1",)


async def insert_visits_of_today(
    store: ColumnStore, site_id: int, timezone: str, rollup: StaleRollup, run: int, now: datetime
) -> None:
    """Store the visits of the day with all events before `now` under the run `run`.

    If there is a previous run, visits without new events are copied from it. Its rows contain the number of events
    of each visit. Other processes may do the same at the same time, under other runs. Raises `StorageUnavailable`.
    """
    sql = _SQL["insert_visits"]
    if rollup.previous:
        changed = _SQL["changed"].replace("{own_visits}", _SQL["all_visits"])
        sql = sql.replace("{changed}", changed).replace("{chosen}", _SQL["changed_visits"])
        sql = sql.replace("{unchanged}", _SQL["unchanged_visits"])
    else:
        sql = sql.replace("{changed}", "").replace("{chosen}", _SQL["all_visits"]).replace("{unchanged}", "")
    parameters = {
        "site_id": site_id,
        "timezone": timezone,
        "day": rollup.day,
        "own_days": utc_days_of([rollup.day], timezone),
        "read_days": utc_days_around([rollup.day], timezone),
        "now_ms": to_epoch_ms(now),
        "previous": rollup.previous,
        "run": run,
    }
    await command_limited(store, sql, parameters, is_large=True, settings=_SETTINGS)
