"""Which groups of exceptions were stored lately, and which of them are new?"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from analytics_queries.telemetry.limited_sql import query_limited, read_limited_statements
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.times import DAY_MS
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_statements(__file__)
_MAX_ENVIRONMENTS = 200_000
MAX_GROUPS = 2000
"""Maximum number of groups that are read for one account."""

GroupOf = tuple[str, int]
"""The public ID of the environment, and the number of the group."""


class Interval(NamedTuple):
    """An interval of the store's clock, in milliseconds since 1970. It excludes the first bound and includes the
    second."""

    after_ms: int
    through_ms: int


class SeenGroup(NamedTuple):
    """A group of exceptions that was stored in an interval, with one exception as an example."""

    environment: str
    group: int
    first_ns: int
    """When the earliest of these exceptions occurred by the sender's clock, in nanoseconds since 1970."""
    exceptions: int
    kind: str
    message: str
    frame: str
    service: str
    of_environment: int
    """Number of groups that were seen in the environment. It may be greater than the number of returned groups."""

    @property
    def key(self) -> GroupOf:
        return self.environment, self.group


async def busy_environments(store: ColumnStore, interval: Interval) -> Mapping[str, int]:
    """Return the environments with exceptions that were stored in the interval, and the approximate number of their
    groups. Exceptions that were received more than a day before the interval are left out.

    Raises `StorageUnavailable`.
    """
    parameters = {**_within(interval), "limit": _MAX_ENVIRONMENTS}
    rows = (await query_limited(store, _SQL["busy"], parameters)).rows
    if len(rows) == _MAX_ENVIRONMENTS:
        raise StorageUnavailable("exceptions of too many environments were stored")
    return {row[0]: row[1] for row in rows}


async def seen_groups(
    store: ColumnStore, accounts: Mapping[str, int], interval: Interval
) -> Sequence[SeenGroup]:
    """Return the groups that were stored in the interval. `accounts`: the account of each environment to read. An
    account gets up to `MAX_GROUPS` groups, chosen from its environments in turns.

    Raises `StorageUnavailable`.
    """
    parameters = {
        **_within(interval),
        "environments": list(accounts),
        "accounts": list(accounts.values()),
        "limit_by": MAX_GROUPS,
    }
    return [SeenGroup(*row) for row in (await query_limited(store, _SQL["seen"], parameters)).rows]


async def find_new(store: ColumnStore, seen: Sequence[SeenGroup], after_ms: int) -> Collection[GroupOf]:
    """Return those of the groups that have no exception stored at or before `after_ms` (the store's clock). Raises
    `StorageUnavailable`."""
    if not seen:
        return set()
    rows = (await query_limited(store, _SQL["first"], _name(seen), uses_projections=True)).rows
    first = {(environment, group): first_ns for environment, group, first_ns in rows}
    # Exceptions may arrive in another order than they occurred. Only the time of storage is exact.
    maybe = [each for each in seen if first.get(each.key, each.first_ns) >= each.first_ns]
    if not maybe:
        return set()
    parameters = {**_name(maybe), "first_ns": min(each.first_ns for each in maybe), "after_ms": after_ms}
    known = {tuple(row) for row in (await query_limited(store, _SQL["earlier"], parameters)).rows}
    return {each.key for each in maybe} - known


def _within(interval: Interval) -> dict[str, object]:
    return {**interval._asdict(), "received_ms": interval.after_ms - DAY_MS}


def _name(seen: Sequence[SeenGroup]) -> dict[str, object]:
    return {"environments": [each.environment for each in seen], "groups": [each.group for each in seen]}
