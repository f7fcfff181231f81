"""Which groups of exceptions were stored lately, and which of them are new?"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from analytics_queries.telemetry.limited_sql import query_limited, read_limited_statements
from pipeline_contracts.times import DAY_MS
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_statements(__file__)
_MAX_GROUPS = 20_000
_MAX_GROUPS_OF_ENVIRONMENT = 2000

GroupOf = tuple[str, int]
"""Public ID of the environment, and number of the group."""


class SeenGroup(NamedTuple):
    """A group of exceptions that was stored in an interval, with one of its exceptions."""

    environment: str
    group: int
    first_ns: int
    """The earliest of these exceptions by the sender's clock, in nanoseconds since 1970."""
    exceptions: int
    kind: str
    message: str
    frame: str
    service: str

    @property
    def key(self) -> GroupOf:
        return self.environment, self.group


async def seen_since(store: ColumnStore, after_ms: int, through_ms: int) -> Sequence[SeenGroup]:
    """Return the groups with exceptions that were stored after one and up to another time of the store's clock: up to
    20,000, and 2,000 of an environment. Exceptions that were received over a day before are left out.

    Raises `StorageUnavailable`.
    """
    parameters = {
        "after_ms": after_ms,
        "through_ms": through_ms,
        "received_ms": after_ms - DAY_MS,
        "limit_by": _MAX_GROUPS_OF_ENVIRONMENT,
        "limit": _MAX_GROUPS,
    }
    return [SeenGroup(*row) for row in (await query_limited(store, _SQL["seen"], parameters)).rows]


async def find_new(store: ColumnStore, seen: Sequence[SeenGroup], after_ms: int) -> Collection[GroupOf]:
    """Return those of the groups that have no exception that was stored up to `after_ms`. Raises
    `StorageUnavailable`."""
    if not seen:
        return set()
    rows = (await query_limited(store, _SQL["first"], _name(seen))).rows
    first = {(environment, group): first_ns for environment, group, first_ns in rows}
    # Exceptions may arrive in another order than they happened: only the time of storage is exact.
    maybe = [each for each in seen if first.get(each.key, each.first_ns) >= each.first_ns]
    if not maybe:
        return set()
    parameters = {**_name(maybe), "first_ns": min(each.first_ns for each in maybe), "after_ms": after_ms}
    known = {tuple(row) for row in (await query_limited(store, _SQL["earlier"], parameters)).rows}
    return {each.key for each in maybe} - known


def _name(seen: Sequence[SeenGroup]) -> dict[str, object]:
    return {
        "environments": sorted({each.environment for each in seen}),
        "groups": sorted({each.group for each in seen}),
    }
