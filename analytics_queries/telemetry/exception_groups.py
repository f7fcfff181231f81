"""Which groups of exceptions were seen in an environment?"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from analytics_queries.telemetry.events import LONGEST_NAME
from analytics_queries.telemetry.limited_sql import query_limited, read_limited_statements
from analytics_queries.telemetry.time_range import TimeRange
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_statements(__file__)
_MAX_RELEASES = 20_000
_MAX_RELEASES_OF_GROUP = 1000


class GroupKey(NamedTuple):
    """The position of a group in the order of the list."""

    last_seen_ns: int
    group: int


class GroupTimes(NamedTuple):
    """The first and the last time at which a group was seen, in nanoseconds since 1970."""

    first_seen_ns: int
    last_seen_ns: int


class SeenRelease(NamedTuple):
    """A version, and an interval between two deployments, in which a group was seen."""

    group: int
    service: str
    version: str
    """The version that the exceptions name. Empty if they name none."""
    since_us: int
    """When the interval begins. 0 if it is before the first deployment."""
    first_ns: int
    """When the first exception of this service, version and interval occurred: the sender's time, but not later than
    the time of receipt."""


async def seen_groups(
    store: ColumnStore,
    environment_id: str,
    within: TimeRange,
    *,
    snapshot_ms: int,
    service: str = "",
    only: Sequence[int] | None = None,
    without: Sequence[int] = (),
    after: GroupKey | None = None,
    limit: int,
) -> list[dict[str, Any]]:
    """Return at most `limit` groups that were seen in this range and follow `after`, in descending order of their keys.
    A dictionary has the columns of the statement `page` in `exception_groups.sql`.

    Rows that were stored after `snapshot_ms` (the store's clock) do not count. `only`, `without`: IDs of groups to
    include and to exclude. Raises `StorageUnavailable`.
    """
    if only is not None and not only:
        return []
    parameters = {
        "environment": environment_id,
        "begin_ns": within.start,
        "end_ns": within.end,
        "snapshot_ms": snapshot_ms,
        "service": service,
        "only": list(only or ()),
        "except": list(without),
        "has_after": after is not None,
        "after_ns": after.last_seen_ns if after else 0,
        "after_group": after.group if after else 0,
        "longest_name": LONGEST_NAME,
        "limit": limit,
    }
    return (await query_limited(store, _SQL["page"], parameters)).records()


async def group_times(
    store: ColumnStore, environment_id: str, groups: Sequence[int]
) -> Mapping[int, GroupTimes]:
    """Return the first and the last time at which each group was seen, as far back as exceptions are kept. Unknown
    groups are left out. Raises `StorageUnavailable`."""
    if not groups:
        return {}
    parameters = {"environment": environment_id, "groups": list(groups)}
    rows = (await query_limited(store, _SQL["times"], parameters, uses_projections=True)).rows
    return {group: GroupTimes(first, last) for group, first, last in rows}


async def newest_samples(
    store: ColumnStore, environment_id: str, last_seen: Mapping[int, int]
) -> Mapping[int, dict[str, Any]]:
    """Return the last exception of each group, with the columns kind, message, frame, stack, version and trace_id.
    Raises `StorageUnavailable`."""
    if not last_seen:
        return {}
    parameters = {
        "environment": environment_id,
        "groups": list(last_seen),
        "times_ns": list(last_seen.values()),
        "longest_name": LONGEST_NAME,
    }
    return {
        row["group_id"]: row for row in (await query_limited(store, _SQL["samples"], parameters)).records()
    }


async def releases_after(
    store: ColumnStore, environment_id: str, after_us: Mapping[int, int], bounds_us: Sequence[int]
) -> Sequence[SeenRelease]:
    """Return the releases in which each group was seen after the group's time in `after_us`, the earliest first.

    `bounds_us`: the times of deployments, in ascending order. All times are microseconds since 1970. Raises
    `StorageUnavailable`.
    """
    if not after_us:
        return []
    parameters = {
        "environment": environment_id,
        "groups": list(after_us),
        "after_us": list(after_us.values()),
        "bounds_us": [0, *bounds_us],
        "longest_name": LONGEST_NAME,
        "group_limit": _MAX_RELEASES_OF_GROUP,
        "limit": _MAX_RELEASES,
    }
    return [SeenRelease(*row) for row in (await query_limited(store, _SQL["releases"], parameters)).rows]
