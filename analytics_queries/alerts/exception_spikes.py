"""Which groups of exceptions are frequent now, and how frequent were they in the last day?"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from analytics_queries.alerts.recent_time import recent_time
from analytics_queries.telemetry.limited_sql import query_limited, read_limited_statements
from analytics_queries.telemetry.time_range import from_nanoseconds, to_nanoseconds
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_statements(__file__)
_MAX_ENVIRONMENTS = 200_000
MAX_GROUPS = 100
"""Maximum number of frequent groups that are read for one account. The same limit applies to named groups."""
DAY = timedelta(days=1)


class FrequentGroup(NamedTuple):
    """A group of exceptions that is frequent now."""

    environment: str
    """The public ID of the environment."""
    group: int
    recent: int
    """Number of exceptions in the last minutes."""
    before: int
    """Number of exceptions in the rest of the last day."""
    first_us: int
    """Time of the first exception in the last day, in microseconds since 1970."""
    kind: str
    message: str
    service: str

    def usual(self, end: datetime, window: timedelta) -> float | None:
        """Return the usual number of exceptions in `window`, computed from the rest of the day before `end`. None if
        the group is younger than six windows."""
        since = max(from_nanoseconds(self.first_us * 1000), end - DAY)
        windows = (end - window - since) / window
        return self.before / windows if windows >= _LEAST_WINDOWS else None


_LEAST_WINDOWS = 6


async def busy_environments(store: ColumnStore, end: datetime, minutes: int, least: int) -> Sequence[str]:
    """Return the environments that have at least `least` exceptions in the last `minutes`. Raises
    `StorageUnavailable`."""
    parameters = {"least": least, "limit": _MAX_ENVIRONMENTS, **recent_time(end, minutes)}
    rows = (await query_limited(store, _SQL["busy"], parameters)).rows
    if len(rows) == _MAX_ENVIRONMENTS:
        raise StorageUnavailable("too many environments have exceptions")
    return [row[0] for row in rows]


async def frequent_groups(
    store: ColumnStore,
    accounts: Mapping[str, int],
    end: datetime,
    minutes: int,
    least: int,
    named: Collection[int] = (),
) -> Sequence[FrequentGroup]:
    """Return the groups that have at least `least` exceptions in the last `minutes`. `accounts`: the account of each
    environment to read. An account gets up to `MAX_GROUPS` groups, chosen from its environments in turns. Groups in
    `named` are returned too, however rare they are. Raises `StorageUnavailable`."""
    if not accounts:
        return []
    parameters = {
        "environments": list(accounts),
        "accounts": list(accounts.values()),
        "least": least,
        "named": sorted(named),
        "day_us": to_nanoseconds(end - DAY) // 1000,
        "limit": MAX_GROUPS,
        **recent_time(end, minutes),
    }
    return [FrequentGroup(*row) for row in (await query_limited(store, _SQL["frequent"], parameters)).rows]
