"""What were the Web Vitals of a site?"""

from collections.abc import Mapping
from datetime import date
from pathlib import Path

from analytics_queries.telemetry.limited_sql import query_limited, read_limited_sql
from analytics_queries.visit_analysis.conditions import filter_visits
from analytics_queries.visit_analysis.request import AnalysisRequest
from analytics_queries.visits.calendar_days import Period, utc_days_of
from analytics_queries.visits.report_rows import Speed
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_sql(__file__)
_OF_PAGES = read_limited_sql(Path(__file__).with_name("speed_of_pages"))
_METRICS = 5


async def page_speed(
    store: ColumnStore, request: AnalysisRequest, period: Period, runs: Mapping[date, int]
) -> Mapping[str, Speed]:
    """Return the 75th percentile of each Web Vital, by its name. Raises `StorageUnavailable`."""
    rows = (
        await query_limited(store, filter_visits(_SQL, request.conditions), request.parameters(period, runs))
    ).rows
    return {metric: Speed(float(p75), int(samples)) for metric, samples, p75 in rows}


async def speed_of_pages(
    store: ColumnStore, request: AnalysisRequest, period: Period, runs: Mapping[date, int], most: int
) -> Mapping[str, Mapping[str, Speed]]:
    """Return the 75th percentile of each Web Vital for the `most` pages that have the most samples, in that
    order. Raises `StorageUnavailable`."""
    parameters = {
        **request.parameters(period, runs),
        "timezone": request.timezone,
        "read_days": utc_days_of(period.days, request.timezone),
        "is_filtered": bool(request.conditions),
        "limit": most * _METRICS,
    }
    found: dict[str, dict[str, Speed]] = {}
    for path, metric, samples, p75 in (
        await query_limited(store, filter_visits(_OF_PAGES, request.conditions), parameters)
    ).rows:
        found.setdefault(path, {})[metric] = Speed(float(p75), int(samples))
    return dict(list(found.items())[:most])
