"""What were the values of metrics of all environments in the last minutes?"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from analytics_queries.alerts.recent_time import recent_time
from analytics_queries.telemetry.limited_sql import query_limited, read_limited_sql
from analytics_queries.telemetry.time_range import to_nanoseconds
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_sql(__file__)
# A cumulative series needs its last point before the window. Only few series are reported more rarely than this.
_LOOK_BACK = timedelta(minutes=15)

MetricKey = tuple[str, str]
"""The public ID of the environment, and the name of the metric."""


@dataclass(frozen=True, slots=True)
class MetricMinute:
    """The points of one service in one minute. The points of a counter are the increases of its series."""

    service: str
    """The name of the service. Empty for all unnamed services together."""
    minute: int
    """The number of the minute. 0 is the last minute."""
    is_counter: bool
    points: int
    total: float
    least: float
    largest: float
    last: float
    last_us: int
    """When the last point was measured, in microseconds since 1970."""


async def metric_minutes(
    store: ColumnStore, asked: Collection[tuple[str, str, str | None]], end: datetime, minutes: int
) -> Mapping[MetricKey, Sequence[MetricMinute]]:
    """Return the last `minutes` of metrics, without minutes that have no points. `asked`: the environment, name and
    service of each metric (None: all services). Metrics without points are left out.

    Raises `StorageUnavailable`.
    """
    if not asked:
        return {}
    environments, metrics, services = zip(*asked, strict=True)
    parameters = {
        "environments": list(environments),
        "metrics": list(metrics),
        "services": [service or "" for service in services],
        "first_us": to_nanoseconds(end - timedelta(minutes=minutes) - _LOOK_BACK) // 1000,
        **recent_time(end, minutes),
    }
    found: dict[MetricKey, list[MetricMinute]] = {}
    for environment, metric, *figures in (await query_limited(store, _SQL, parameters)).rows:
        found.setdefault((environment, metric), []).append(MetricMinute(*figures))
    return found


def aggregate(minutes: Sequence[MetricMinute], aggregation: str, window_minutes: int) -> float | None:
    """Return the average, minimum, maximum, sum or last value of the points. None if there are no points.

    The values of a counter are its increases per minute: `sum` is the increase in the window, `avg` the increase per
    minute.
    """
    if not minutes:
        return None
    if any(each.is_counter for each in minutes):
        increases: dict[int, float] = {}
        for each in minutes:
            increases[each.minute] = increases.get(each.minute, 0.0) + each.total
        if aggregation == "avg":
            return sum(increases.values()) / window_minutes
        return _OF_INCREASES[aggregation](increases)
    return _OF_POINTS[aggregation](minutes)


_OF_INCREASES: Mapping[str, Callable[[Mapping[int, float]], float]] = {
    "sum": lambda increases: sum(increases.values()),
    "min": lambda increases: min(increases.values()),
    "max": lambda increases: max(increases.values()),
    "last": lambda increases: increases[min(increases)],
}
_OF_POINTS: Mapping[str, Callable[[Sequence[MetricMinute]], float]] = {
    "avg": lambda minutes: sum(each.total for each in minutes) / sum(each.points for each in minutes),
    "sum": lambda minutes: sum(each.total for each in minutes),
    "min": lambda minutes: min(each.least for each in minutes),
    "max": lambda minutes: max(each.largest for each in minutes),
    "last": lambda minutes: max(minutes, key=lambda each: each.last_us).last,
}
