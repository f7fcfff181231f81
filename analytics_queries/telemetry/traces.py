"""Which traces of an environment began in a time range, the newest first?"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from analytics_queries.telemetry.events import LONGEST_NAME
from analytics_queries.telemetry.limited_sql import query_limited, read_limited_statements
from analytics_queries.telemetry.time_range import SECOND_NS, TimeRange
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_statements(__file__)
# The table of trace times has a row for each insert that contains spans of a trace. A trace has about this many rows.
_ROWS_PER_TRACE = 4
_NEWEST_SECONDS = 2 * 86_400


@dataclass(frozen=True, slots=True)
class TraceFilter:
    """Conditions for traces: at least one span of the trace must meet all of them. An empty text matches every span."""

    service: str = ""
    name: str = ""
    only_errors: bool = False
    least_ns: int = 0
    """The minimum duration of the span in nanoseconds."""


class TraceKey(NamedTuple):
    """The position of a trace in the order of the list."""

    started_ns: int
    trace_id: str


async def newest_traces(
    store: ColumnStore,
    environment_id: str,
    within: TimeRange,
    filters: TraceFilter,
    after: TraceKey | None,
    limit: int,
) -> list[dict[str, Any]]:
    """Return at most `limit` traces that follow `after`, in descending order of their keys. A dictionary has the
    columns of the statement `page` in `traces.sql`.

    A trace that lasts for more than a day is listed once for each day. While spans of a trace are still being received,
    its start may move to an earlier time; the trace is then listed again. Raises `StorageUnavailable`.
    """
    if after is not None:
        within = TimeRange(within.start, min(within.end, after.started_ns + 1))
    found: list[dict[str, Any]] = []
    first_s = (
        await _find_first_start(store, environment_id, within, limit) if filters == TraceFilter() else None
    )
    for window in _windows(within, first_s):
        wanted = limit - len(found)
        rows = await _read_window(store, environment_id, within, window, filters, after, wanted)
        page = await _without_earlier(store, environment_id, window, rows)
        found += page
        if len(page) < len(rows) == wanted:
            # Few traces are so long that they need this extra query. Reading more pages because of them would be
            # slower.
            after = TraceKey(rows[-1]["started_ns"], rows[-1]["trace_id"])
            wanted = limit - len(found)
            found += await _read_window(
                store, environment_id, within, window, filters, after, wanted, without_earlier=True
            )
        if len(found) >= limit:
            break
    return found


async def _find_first_start(
    store: ColumnStore, environment_id: str, within: TimeRange, limit: int
) -> int | None:
    """Return a start, as a whole second, from which there are probably `limit` traces. None if too few traces began
    lately."""
    end_s = -(-within.end // SECOND_NS)
    parameters = {
        "environment": environment_id,
        "begin_s": max(within.start // SECOND_NS, end_s - _NEWEST_SECONDS),
        "end_s": end_s,
        "rows_before": _ROWS_PER_TRACE * limit,
    }
    rows = (await query_limited(store, _SQL["first_start"], parameters, uses_projections=True)).rows
    return int(rows[0][0]) if rows else None


def _windows(within: TimeRange, first_s: int | None) -> Iterator[TimeRange]:
    rest = within
    if first_s is not None and within.start < first_s * SECOND_NS < within.end:
        yield TimeRange(first_s * SECOND_NS, within.end)
        rest = TimeRange(within.start, first_s * SECOND_NS)
    yield from rest.newest_windows()


async def _read_window(
    store: ColumnStore,
    environment_id: str,
    within: TimeRange,
    window: TimeRange,
    filters: TraceFilter,
    after: TraceKey | None,
    limit: int,
    *,
    without_earlier: bool = False,
) -> list[dict[str, Any]]:
    begin_s = window.start // SECOND_NS
    parameters = {
        "environment": environment_id,
        "begin_s": begin_s,
        "begin_ns": begin_s * SECOND_NS,
        "end_s": -(-window.end // SECOND_NS),
        "end_ns": window.end,
        "from_ns": within.start,
        "without_earlier": without_earlier,
        "has_filter": filters != TraceFilter(),
        **asdict(filters),
        "has_after": after is not None,
        "after_ns": after.started_ns if after is not None else 0,
        "after_trace": after.trace_id if after is not None else "",
        "longest_name": LONGEST_NAME,
        "limit": limit,
    }
    return (await query_limited(store, _SQL["page"], parameters, uses_projections=True)).records()


async def _without_earlier(
    store: ColumnStore, environment_id: str, window: TimeRange, rows: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the traces that began in the window. All other traces have only later spans in the window, and not their
    first span."""
    doubtful = [row["trace_id"] for row in rows if not row["begins_with_root"]]
    if not doubtful:
        return list(rows)
    parameters = {
        "environment": environment_id,
        "begin_s": window.start // SECOND_NS,
        "traces": doubtful,
    }
    earlier = {
        row[0]
        for row in (
            await query_limited(store, _SQL["started_before"], parameters, uses_projections=True)
        ).rows
    }
    return [row for row in rows if row["trace_id"] not in earlier]
