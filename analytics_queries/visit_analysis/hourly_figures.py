"""How many page views, visitors and visits did a site have in each hour of a period?"""

from collections.abc import Mapping
from datetime import date

from analytics_queries.telemetry.limited_sql import query_limited, read_limited_sql
from analytics_queries.visit_analysis.conditions import filter_visits
from analytics_queries.visit_analysis.request import AnalysisRequest
from analytics_queries.visits.calendar_days import Period
from analytics_queries.visits.period_figures import Figures
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_sql(__file__)


async def hourly_figures(
    store: ColumnStore, request: AnalysisRequest, period: Period, runs: Mapping[date, int]
) -> Mapping[int, Figures]:
    """Return the figures, without conversions. The key counts hours since the beginning of the period. Hours
    without visits are left out. Raises `StorageUnavailable`."""
    rows = (
        await query_limited(store, filter_visits(_SQL, request.conditions), request.parameters(period, runs))
    ).rows
    return {int(hour): Figures(*(int(value) for value in row)) for hour, *row in rows}
