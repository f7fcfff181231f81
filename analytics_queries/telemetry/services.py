"""How many requests did each service serve in a time range, how many failed, and how long did they take?"""

from collections.abc import Sequence
from dataclasses import dataclass

from analytics_queries.telemetry.bucket_quantiles import duration_quantile
from analytics_queries.telemetry.limited_sql import query_limited, read_limited_sql
from analytics_queries.telemetry.time_range import SECOND_NS, TimeRange, from_nanoseconds, microseconds_from
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_sql(__file__)
_HOUR_NS = 3600 * SECOND_NS


@dataclass(frozen=True, slots=True)
class ServiceFigures:
    """Requests of a service. Percentiles of durations are milliseconds, None if no request has a duration."""

    service: str
    requests: int
    errors: int
    p50: float | None
    p95: float | None
    p99: float | None


async def service_figures(
    store: ColumnStore, environment_id: str, within: TimeRange, *, after: str | None = None, limit: int
) -> Sequence[ServiceFigures]:
    """Return at most `limit` services after `after`, in the order of their names.

    Requests are telemetry events of the types request and job, and spans of the kinds Server and Consumer. The
    percentiles have an error below 5 %. Raises `StorageUnavailable`.
    """
    begin = -(-within.start // _HOUR_NS) * _HOUR_NS
    end = within.end // _HOUR_NS * _HOUR_NS
    if begin >= end:
        begin = end = within.end
    edges = {from_nanoseconds(time).date() for time in (within.start, begin, end, within.end)}
    parameters = {
        "environment": environment_id,
        "begin_us": microseconds_from(within.start),
        "end_us": microseconds_from(within.end),
        "hours_begin_s": begin // SECOND_NS,
        "hours_end_s": end // SECOND_NS,
        "edge_days": sorted(edges),
        "has_after": after is not None,
        "after": after or "",
        "limit": limit,
    }
    return [
        _figures(service, requests, errors, durations)
        for service, requests, errors, durations in (await query_limited(store, _SQL, parameters)).rows
    ]


def _figures(
    service: str, requests: int, errors: int, durations: tuple[Sequence[int], Sequence[int]]
) -> ServiceFigures:
    buckets, counts = durations
    p50, p95, p99 = (duration_quantile(buckets, counts, share) for share in (0.5, 0.95, 0.99))
    return ServiceFigures(service, requests, errors, p50, p95, p99)
