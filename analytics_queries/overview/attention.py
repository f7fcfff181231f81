"""What was unusual lately in the environments and sites of an account?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from analytics_queries.telemetry.direct_rollups import Source, query_sources
from analytics_queries.telemetry.limited_sql import LIMITS, query_limited
from analytics_queries.telemetry.request_rollups import find_rollup
from analytics_queries.telemetry.time_range import to_nanoseconds
from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_statements

_SQL = read_statements(__file__)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
# The clock of a sender may be this much ahead.
_AHEAD = timedelta(minutes=10)
MAX_GROUPS = 200
MAX_SERVICES = 2000


class SeenException(NamedTuple):
    """A group of exceptions, with the numbers of its exceptions in several time ranges."""

    environment: str
    """The public ID of the environment."""
    group: int
    day_count: int
    """Number of exceptions in the last 24 hours."""
    hour_count: int
    last_us: int
    kind: str
    message: str
    service: str


class ServiceLoad(NamedTuple):
    """The requests of a service in a time range."""

    requests: int
    errors: int
    p95_ms: float | None
    """The percentile of the durations. None if no request has a duration."""

    @property
    def error_rate(self) -> float:
        """Return the share of failed requests, from 0 to 1."""
        return self.errors / self.requests if self.requests else 0.0


Service = tuple[str, str]
"""The public ID of the environment, and the name of the service."""


@dataclass(frozen=True, slots=True)
class SiteVisits:
    """The visits of a site in the last 24 hours."""

    visitors: int
    views: int


def _times(now: datetime) -> dict[str, int]:
    return {
        "day_us": _microseconds(now - DAY),
        "hour_us": _microseconds(now - HOUR),
        "end_us": _microseconds(now + _AHEAD),
        # By the sender's clock, no row occurred later than it was received, apart from the difference between the
        # clocks.
        "received_us": _microseconds(now - DAY - _AHEAD),
    }


def _microseconds(moment: datetime) -> int:
    return to_nanoseconds(moment) // 1000


async def seen_exceptions(
    store: ColumnStore, environments: Sequence[str], now: datetime
) -> Sequence[SeenException]:
    """Return up to `MAX_GROUPS` groups: first the groups with the most exceptions in the last hour, then those with
    the most in the last day.

    Raises `StorageUnavailable`.
    """
    if not environments:
        return []
    parameters = {"environments": list(environments), "limit": MAX_GROUPS, **_times(now)}
    rows = (await query_limited(store, _SQL["exceptions"] + LIMITS, parameters)).rows
    return [SeenException(*row) for row in rows]


async def first_seen(store: ColumnStore, groups: Sequence[SeenException]) -> Mapping[tuple[str, int], int]:
    """Return when each group was seen for the first time, in microseconds since 1970, by environment and group.
    Raises `StorageUnavailable`."""
    if not groups:
        return {}
    parameters = {
        "environments": sorted({each.environment for each in groups}),
        "groups": sorted({each.group for each in groups}),
    }
    rows = (await query_limited(store, _SQL["first_seen"] + LIMITS, parameters, uses_projections=True)).rows
    return {(environment, group): first for environment, group, first in rows}


async def exceptions_of_environments(
    store: ColumnStore, environments: Sequence[str], now: datetime
) -> Mapping[str, int]:
    """Return the number of exceptions in the last day by environment. Environments without exceptions are left out.
    Raises `StorageUnavailable`."""
    if not environments:
        return {}
    parameters = {"environments": list(environments), **_times(now)}
    rows = (await query_limited(store, _SQL["exceptions_of_environments"] + LIMITS, parameters)).rows
    return {str(environment): int(count) for environment, count in rows}


async def recent_services(
    store: ColumnStore, environments: Sequence[str], now: datetime
) -> Mapping[Service, ServiceLoad]:
    """Return the requests of the last hour by service. The hour begins at a whole minute. Raises
    `StorageUnavailable`."""
    end = int(now.timestamp()) // 60 * 60 + 60
    return await _services(store, "minutes", environments, end - 3660, end)


async def usual_services(
    store: ColumnStore, environments: Sequence[str], now: datetime
) -> Mapping[Service, ServiceLoad]:
    """Return the requests of 24 whole hours by service. The last of these hours ended at least an hour ago. Raises
    `StorageUnavailable`."""
    end = int((now - HOUR).timestamp()) // 3600 * 3600
    return await _services(store, "hours", environments, end - 86_400, end)


async def _services(
    store: ColumnStore, unit: str, environments: Sequence[str], begin_s: int, end_s: int
) -> Mapping[Service, ServiceLoad]:
    if not environments:
        return {}
    parameters = {
        "environments": list(environments),
        "begin_s": begin_s,
        "end_s": end_s,
        "limit": MAX_SERVICES,
    }
    sources = [
        Source(_SQL[f"{signal}_{unit}"], find_rollup("requests", signal, unit))
        for signal in ("event", "span")
    ]
    rows = (await query_sources(store, sources, _SQL["services"], parameters)).rows
    return {
        (environment, service): ServiceLoad(requests, errors, p95 if p95 == p95 else None)
        for environment, service, requests, errors, p95 in rows
    }


async def site_visits(store: ColumnStore, sites: Sequence[int], now: datetime) -> Mapping[int, SiteVisits]:
    """Return the visits in the last day by site. Sites without page views are left out. Raises
    `StorageUnavailable`."""
    if not sites:
        return {}
    rows = (await query_limited(store, _SQL["visitors"] + LIMITS, {"sites": list(sites), **_times(now)})).rows
    return {site: SiteVisits(visitors, views) for site, visitors, views in rows}
