"""Which exceptions of a group were reported in a time range, the newest first?"""

from typing import Any, NamedTuple

from analytics_queries.telemetry.events import LONGEST_NAME
from analytics_queries.telemetry.limited_sql import query_limited, read_limited_sql
from analytics_queries.telemetry.time_range import TimeRange
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_sql(__file__)


class OccurrenceKey(NamedTuple):
    """The position of an exception in the order of the list."""

    time_ns: int
    identity: int
    source: str
    """The kind of record that reported the exception: event, log or span."""


async def newest_occurrences(
    store: ColumnStore,
    environment_id: str,
    group: int,
    within: TimeRange,
    after: OccurrenceKey | None,
    limit: int,
) -> list[dict[str, Any]]:
    """Return at most `limit` exceptions that follow `after`, in descending order of their keys. A
    dictionary has the columns of `exception_occurrences.sql`. Raises `StorageUnavailable`."""
    last_ns = within.end
    if after is not None:
        within = TimeRange(within.start, min(within.end, after.time_ns + 1))
    found: list[dict[str, Any]] = []
    for window in within.newest_windows():
        parameters = {
            "environment": environment_id,
            "group": group,
            "begin_ns": window.start,
            "end_ns": window.end,
            "last_ns": last_ns,
            "has_after": after is not None,
            "after_ns": after.time_ns if after else 0,
            "after_identity": after.identity if after else 0,
            "after_source": after.source if after else "",
            "longest_name": LONGEST_NAME,
            "limit": limit - len(found),
        }
        found += (await query_limited(store, _SQL, parameters)).records()
        if len(found) >= limit:
            break
    return found


def occurrence_key(row: dict[str, Any]) -> OccurrenceKey:
    """Return the key of a row of `newest_occurrences`."""
    return OccurrenceKey(row["time_ns"], row["identity"], row["source_name"])
