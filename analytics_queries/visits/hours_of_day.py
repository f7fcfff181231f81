"""How many page views, visitors and visits did a site have in each hour of today?"""

from collections.abc import Mapping

from analytics_queries.visits.calendar_days import Period, utc_days_of
from analytics_queries.visits.day_tables import Runs, select_visits
from analytics_queries.visits.report_request import ReportRequest
from pipeline_contracts.times import to_epoch_ms
from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_sql

_SQL = read_sql(__file__)


async def hours_of_day(
    store: ColumnStore, request: ReportRequest, today: Period, runs: Runs
) -> Mapping[int, tuple[int, int, int]]:
    """Return (page views, visitors, visits) by hour. The key counts hours since the start of the day. Hours
    without visits are left out. Raises `StorageUnavailable`."""
    parameters = {
        **request.parameters(today, runs.by_day),
        "timezone": request.timezone,
        "own_days": utc_days_of(today.days, request.timezone),
        "begin_ms": to_epoch_ms(today.begin),
        "now_ms": to_epoch_ms(today.end),
    }
    sql = _SQL.replace("{visits_of_days}", select_visits(runs.of(today.days)))
    rows = (await store.query(sql, parameters)).rows
    return {int(hour): (int(views), int(visitors), int(visits)) for hour, views, visitors, visits in rows}
