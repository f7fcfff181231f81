"""How many requests did services of all environments serve in the last minutes, how many failed, and how long did they
take?"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from analytics_queries.alerts.recent_time import recent_time
from analytics_queries.telemetry.bucket_quantiles import duration_quantile
from analytics_queries.telemetry.limited_sql import query_limited, read_limited_sql
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_sql(__file__)

ServiceWindow = tuple[str, str, int]
"""The public ID of the environment, the name of the service, and the number of minutes."""


class RequestFigures(NamedTuple):
    """The requests of a service in a window. Their durations are counted in buckets (`bucket_quantiles`)."""

    requests: int
    errors: int
    durations: tuple[Sequence[int], Sequence[int]]

    @property
    def error_rate(self) -> float | None:
        """Return the share of failed requests in percent. None if there are no requests."""
        return 100 * self.errors / self.requests if self.requests else None

    @property
    def p95_duration(self) -> float | None:
        """Return the 95th percentile of the durations in milliseconds. None if no request has a duration."""
        return duration_quantile(*self.durations, 0.95)


async def request_figures(
    store: ColumnStore, asked: Collection[ServiceWindow], end: datetime
) -> Mapping[ServiceWindow, RequestFigures]:
    """Return the figures of the services in the last minutes. Services without requests are left out.

    Raises `StorageUnavailable`.
    """
    if not asked:
        return {}
    environments, services, windows = zip(*sorted(asked), strict=True)
    parameters = {
        "environments": list(environments),
        "services": list(services),
        "windows": list(windows),
        **recent_time(end, max(windows)),
    }
    rows = (await query_limited(store, _SQL, parameters)).rows
    return {
        (environment, service, window): RequestFigures(*figures)
        for environment, service, window, *figures in rows
    }
