"""How many requests did services of all environments serve in the last minutes, how many failed, and how long did they
take?"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from analytics_queries.alerts.recent_time import recent_time
from analytics_queries.telemetry.bucket_quantiles import duration_quantile
from analytics_queries.telemetry.limited_sql import query_limited, read_limited_sql
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_sql(__file__)
_MAX_ROWS = 100_000

ServiceKey = tuple[str, str]
"""Public ID of the environment, and name of the service."""


@dataclass(frozen=True, slots=True)
class RequestMinute:
    """The requests of one minute; durations are counted in buckets (`bucket_quantiles`)."""

    minute: int
    """0 is the last one."""
    requests: int
    errors: int
    durations: tuple[Sequence[int], Sequence[int]]


async def request_minutes(
    store: ColumnStore, services: Collection[ServiceKey], end: datetime, minutes: int
) -> Mapping[ServiceKey, Sequence[RequestMinute]]:
    """Return the last minutes with requests of each of these services, the newest first; services without requests are
    left out. Raises `StorageUnavailable`."""
    if not services:
        return {}
    parameters = {
        "environments": sorted({environment for environment, _ in services}),
        "services": sorted({service for _, service in services}),
        "limit": _MAX_ROWS,
        **recent_time(end, minutes),
    }
    found: dict[ServiceKey, list[RequestMinute]] = {}
    for environment, service, *figures in (await query_limited(store, _SQL, parameters)).rows:
        if (environment, service) in services:
            found.setdefault((environment, service), []).append(RequestMinute(*figures))
    return found


def error_rate(minutes: Sequence[RequestMinute]) -> float | None:
    """Return the share of failed requests in percent; None without requests."""
    requests = sum(each.requests for each in minutes)
    return 100 * sum(each.errors for each in minutes) / requests if requests else None


def p95_duration(minutes: Sequence[RequestMinute]) -> float | None:
    """Return the 95th percentile of the durations in milliseconds; None without any."""
    counts: dict[int, int] = {}
    for each in minutes:
        for bucket, count in zip(*each.durations, strict=True):
            counts[bucket] = counts.get(bucket, 0) + count
    return duration_quantile(list(counts), list(counts.values()), 0.95)
