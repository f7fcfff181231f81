"""What are the values of a metric in each step of a time range?"""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from analytics_queries.telemetry.limited_sql import LIMITS, query_limited
from analytics_queries.telemetry.metric_names import MetricKind, NamedMetric
from analytics_queries.telemetry.time_range import SECOND_NS, TimeRange
from storage_backends.column_store.interface import ColumnStore, QueryResult
from storage_backends.sql_files import read_statements

_SQL = read_statements(__file__)

Aggregation = Literal["avg", "min", "max", "sum", "count", "rate", "p50", "p95", "p99"]
_QUANTILES: Mapping[Aggregation, float] = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_VALUES: Sequence[Aggregation] = ("avg", "min", "max", "sum", "count", "p50", "p95", "p99")
_AGGREGATIONS: Mapping[MetricKind, Sequence[Aggregation]] = {
    "gauge": _VALUES,
    "up_down_counter": _VALUES,
    "counter": ("rate", "sum", "count"),
    "histogram": ("p95", "p50", "p99", "avg", "sum", "count", "rate"),
    "exponential_histogram": ("p95", "p50", "p99", "avg", "sum", "count", "rate"),
    "summary": ("avg", "sum", "count", "rate"),
}
MAX_STEPS = 1000
MAX_GROUPS = 50
_MAX_BUCKET_MAPS = 10_000
_SERVICE = "service"
# A cumulative series needs its last point before the range. Only few series are reported more rarely than this.
_LOOK_BACK_NS = 15 * 60 * SECOND_NS


def fitting_aggregations(metric: NamedMetric) -> Sequence[Aggregation]:
    """Return the aggregations that the metric supports. The default comes first."""
    return _AGGREGATIONS["counter" if _has_increases(metric) else metric.kind]


def _has_increases(metric: NamedMetric) -> bool:
    """Return True if the points of a sum only make sense as increases."""
    return metric.kind == "counter" or (metric.kind == "up_down_counter" and metric.is_delta)


@dataclass(frozen=True, slots=True)
class SeriesRequest:
    """What to read of a metric: the time range, the steps, the aggregation and the groups."""

    within: TimeRange
    step_ms: int
    aggregation: Aggregation
    group_by: str = ""
    """Groups the points: `service` or the name of an attribute. Empty: all points become one series."""
    groups: int = 10
    """Maximum number of groups to return. These are the groups with the largest points."""
    service: str = ""
    attribute: str = ""
    """Read only points whose attribute of this name has this value. An empty name: read all points."""
    value: str = ""


@dataclass(slots=True)
class GroupSeries:
    """The values of one group, as pairs: the time of the step in milliseconds since 1970, and the value. Steps without
    points are left out."""

    group: str
    points: list[tuple[int, float]] = field(default_factory=list)


async def metric_series(
    store: ColumnStore, environment_id: str, metric: NamedMetric, request: SeriesRequest
) -> tuple[Sequence[GroupSeries], int]:
    """Return the series of the groups with the largest points, and the total number of groups. The requested
    aggregation must be one of `fitting_aggregations`. Raises `StorageUnavailable`."""
    source, question, read = _choose(metric, request)
    is_total = question in ("increases", "bucket_quantiles") and not metric.is_delta
    parameters: dict[str, Any] = {
        "environment": environment_id,
        "table": "telemetry_events" if metric.table == "event" else f"otel_metrics_{metric.table}",
        "name": metric.name,
        "first_ns": request.within.start - (_LOOK_BACK_NS if is_total else 0),
        "begin_ns": request.within.start,
        "end_ns": request.within.end,
        "step_ms": request.step_ms,
        "is_delta": metric.is_delta,
        "group_by": request.group_by,
        "service": request.service,
        "attribute": request.attribute,
        "value": request.value,
        "rows": (MAX_STEPS + 2) * MAX_GROUPS,
    }
    groups, all_groups = [""], 1
    if request.group_by:
        rows = (await _ask(store, source, "top_groups", {**parameters, "limit": request.groups})).records()
        groups, all_groups = [row["group_name"] for row in rows], rows[0]["all_groups"] if rows else 0
        if not groups:
            return [], 0
    quantile = _QUANTILES.get(request.aggregation, 0.0)
    # The store adds up the buckets of each step and each group in memory.
    steps = request.within.seconds * 1000 / request.step_ms + 1
    at_once = max(1, int(_MAX_BUCKET_MAPS / steps)) if question == "bucket_quantiles" else len(groups)
    series: list[GroupSeries] = []
    for first in range(0, len(groups), at_once):
        some = groups[first : first + at_once]
        result = await _ask(store, source, question, {**parameters, "groups": some, "quantile": quantile})
        # Use a thread, because there may be 50,000 values.
        series += await asyncio.to_thread(_read_series, request, some, result, read)
    return series, all_groups


def _read_series(
    request: SeriesRequest, groups: Sequence[str], result: QueryResult, read: "_Read"
) -> Sequence[GroupSeries]:
    series = [GroupSeries(group) for group in groups]
    for row in result.records():
        value = read(row)
        if value is not None and math.isfinite(value):
            series[row["place"] - 1].points.append((row["step"] * request.step_ms, value))
    return series


async def _ask(store: ColumnStore, source: str, question: str, parameters: Mapping[str, Any]) -> QueryResult:
    group_by = parameters["group_by"]
    grouping = "by_attribute" if group_by not in ("", _SERVICE) else "by_service" if group_by else "ungrouped"
    sql = f"WITH points AS\n(\n{_SQL[source]}\n),\ngrouped_points AS\n(\n{_SQL[grouping]}\n)\n{_SQL[question]}{LIMITS}"
    return await query_limited(store, sql, parameters)


_Read = Callable[[dict[str, Any]], float | None]


def _choose(metric: NamedMetric, request: SeriesRequest) -> tuple[str, str, _Read]:
    """Return three things: the source of the points, the query over the points, and a function that reads the value
    from a row of the query's result."""
    aggregation = request.aggregation
    quantile = _QUANTILES.get(aggregation)
    if metric.kind in ("histogram", "exponential_histogram", "summary"):
        if quantile is not None:
            is_exponential = metric.kind == "exponential_histogram"
            source = "exponential_bucket_points" if is_exponential else "bucket_points"
            return source, "bucket_quantiles", lambda row: row["value"]
        return "total_points", "increases", _read_total(request)
    source = "event_points" if metric.table == "event" else "number_points"
    if _has_increases(metric):
        return source, "increases", _read_increase(request)
    if quantile is not None:
        position = list(_QUANTILES).index(aggregation)
        return source, "quantiles", lambda row: row["quantiles"][position]
    column = {"avg": "average", "min": "minimum", "max": "maximum", "sum": "total", "count": "points"}
    return source, "values", lambda row: row[column[aggregation]]


def _read_increase(request: SeriesRequest) -> _Read:
    match request.aggregation:
        case "rate":
            return lambda row: row["total"] / _seconds_of_step(request, row["step"])
        case "count":
            return lambda row: row["points"]
    return lambda row: row["total"]


def _read_total(request: SeriesRequest) -> _Read:
    match request.aggregation:
        case "rate":
            return lambda row: row["total"] / _seconds_of_step(request, row["step"])
        case "sum":
            return lambda row: row["other_total"]
        case "avg":
            return lambda row: row["other_total"] / row["total"] if row["total"] else None
    return lambda row: row["total"]


def _seconds_of_step(request: SeriesRequest, step: int) -> float:
    """Return how many seconds of the step lie in the range. The range may cut the first and the last step."""
    step_ns = request.step_ms * 1_000_000
    begin = max(request.within.start, step * step_ns)
    end = min(request.within.end, (step + 1) * step_ns)
    return max(end - begin, 1) / SECOND_NS
