"""Which telemetry events of an environment occurred in a time range, the newest first?"""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from analytics_queries.telemetry.limited_sql import query_limited, read_limited_sql
from analytics_queries.telemetry.time_range import TimeRange, microseconds_from
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_sql(__file__)
LONGEST_TEXT = 10_000
"""Maximum number of characters of a text that a list shows."""
LONGEST_NAME = 500
"""Maximum number of characters of a name, an ID or a route that a list shows. A filter has the same limit."""
LONGEST_JSON = 16_384
"""Maximum number of bytes of attributes or a payload that a list shows."""


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Conditions for events. An empty text matches every event."""

    type: str = ""
    service: str = ""
    severity: str = ""
    name: str = ""
    route: str = ""
    trace: str = ""


class EventKey(NamedTuple):
    """The position of an event in the order of the list. No two events have the same key."""

    time_ns: int
    log_offset: int
    log_id: int
    """A hash of the name of the event log."""
    position: int


async def newest_events(
    store: ColumnStore,
    environment_id: str,
    within: TimeRange,
    filters: EventFilter,
    after: EventKey | None,
    limit: int,
) -> list[dict[str, Any]]:
    """Return at most `limit` events that follow `after`, in descending order of their keys. A dictionary has the
    columns of `events.sql`.

    Raises `StorageUnavailable`.
    """
    if after is not None:
        within = TimeRange(within.start, min(within.end, after.time_ns + 1))
    found: list[dict[str, Any]] = []
    for window in within.newest_windows():
        key = after or EventKey(0, 0, 0, 0)
        parameters = {
            "environment": environment_id,
            "begin_us": microseconds_from(window.start),
            "end_us": microseconds_from(window.end),
            **asdict(filters),
            "has_after": after is not None,
            "after_ns": key.time_ns,
            "after_offset": key.log_offset,
            "after_log": key.log_id,
            "after_position": key.position,
            "longest_text": LONGEST_TEXT,
            "longest_name": LONGEST_NAME,
            "longest_json": LONGEST_JSON,
            "limit": limit - len(found),
        }
        found += (await query_limited(store, _SQL, parameters)).records()
        if len(found) >= limit:
            break
    return found


def event_key(row: dict[str, Any]) -> EventKey:
    """Return the key of a row of `newest_events`."""
    return EventKey(row["time_ns"], row["log_offset"], row["log_id"], row["position"])
