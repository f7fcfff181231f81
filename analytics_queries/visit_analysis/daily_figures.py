"""How many page views, visitors, visits and conversions did a site have on each day of a period?"""

from collections.abc import Mapping
from datetime import date

from analytics_queries.telemetry.limited_sql import LIMITS, query_limited
from analytics_queries.visit_analysis.conditions import filter_visits
from analytics_queries.visit_analysis.request import AnalysisRequest
from analytics_queries.visits.calendar_days import Period, whole_days
from analytics_queries.visits.period_figures import Figures
from analytics_queries.visits.stored_days import stored_days
from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_statements

_SQL = read_statements(__file__)
# A date before every rollup. With it, no day is cut.
_NO_DAY = date(1970, 1, 1)


async def daily_figures(
    store: ColumnStore, request: AnalysisRequest, period: Period, runs: Mapping[date, int]
) -> Mapping[date, Figures]:
    """Return the figures by day. The last day counts up to `period.end`. Days without visits are left out.
    Raises `StorageUnavailable`."""
    stored: Mapping[date, Figures] = {}
    if not request.conditions:
        days = whole_days(period, request.timezone)
        stored = await stored_days(store, request.site_id, request.goals, days, runs)
    others = {day: run for day, run in runs.items() if day in period.days and day not in stored}
    if not others:
        return stored
    # The rollup of today ends at `now`, so it needs no cut. The last day of a comparison period needs one.
    cut = _NO_DAY if request.now is not None and period.end >= request.now else period.last
    parts = [
        name for name, any_day in (("uncut_days", set(others) - {cut}), ("cut_day", cut in others)) if any_day
    ]
    sql = _SQL["visits"] + "\n" + "\nUNION ALL\n".join(_SQL[name] for name in parts) + LIMITS
    parameters = {**request.parameters(period, others), "cut": cut}
    rows = (await query_limited(store, filter_visits(sql, request.conditions), parameters)).rows
    return {**stored, **{day: Figures(*(int(value) for value in row)) for day, *row in rows}}
