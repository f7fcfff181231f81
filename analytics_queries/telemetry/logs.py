"""Which log records, from OTLP or from telemetry events, were written in a time range, the newest first?"""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from analytics_queries.telemetry.events import LONGEST_JSON, LONGEST_NAME, LONGEST_TEXT
from analytics_queries.telemetry.limited_sql import query_limited, read_limited_statements
from analytics_queries.telemetry.time_range import TimeRange, microseconds_from
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_statements(__file__)
_MAX_UINT32 = 2**32 - 1
_MAX_UINT64 = 2**64 - 1
_MAX_SAME_KEY = 1000
# Splits a text in the same way as the column store's index: at every ASCII character that is neither a letter nor a
# digit.
_WORD = re.compile(r"[0-9A-Za-z\u0080-\U0010ffff]+")
_UPPER = re.compile("[A-Z]+")


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Conditions for log records. An empty text matches every record."""

    service: str = ""
    trace: str = ""
    least_severity: int = 0
    """Minimum severity as an OpenTelemetry number: 5 debug, 9 info, 13 warning, 17 error, 21 fatal."""
    words: Sequence[str] = ()
    """Words that the text of a record must contain, as returned by `search_words`."""


LogPlace = tuple[int, int, int]
"""Where a record is: its time in nanoseconds since 1970, the offset of its request in the event log, and a hash of the
event log's name."""


class LogKey(NamedTuple):
    """The end of a page. If one request logged several records at the same time, they are ordered by their contents."""

    time_ns: int
    log_offset: int
    log_id: int
    """A hash of the name of the event log."""
    shown: int
    """Number of records with this time and offset that earlier pages have shown."""


def search_words(text: str) -> Sequence[str]:
    """Return the different words of a search text, in lower case."""
    return tuple(
        dict.fromkeys(_UPPER.sub(lambda upper: upper[0].lower(), word) for word in _WORD.findall(text))
    )


async def newest_logs(
    store: ColumnStore,
    environment_id: str,
    within: TimeRange,
    filters: LogFilter,
    after: LogKey | None,
    limit: int,
) -> tuple[list[dict[str, Any]], LogKey | None]:
    """Return at most `limit` records that follow `after`. Also return the key of the last one if more records follow,
    and None otherwise. A dictionary has the columns of the statement `page` in `logs.sql`.

    Raises `StorageUnavailable`.
    """
    after = after or LogKey(within.end - 1, _MAX_UINT64, _MAX_UINT32, 0)
    within = TimeRange(within.start, min(within.end, after.time_ns + 1))
    shared = _shared_parameters(environment_id, filters, after[:3])
    wanted = after.shown + limit + 1
    last = await _find_page_end(store, within, shared, wanted)
    if last is None:
        return [], None
    rows = await _read_page(
        store, shared, (last.time_ns, last.log_offset, last.log_id), limit + 1, after.shown
    )
    page = rows[:limit]
    return page, _page_key(page, after) if len(rows) > limit else None


async def newest_places(
    store: ColumnStore, environment_id: str, within: TimeRange, filters: LogFilter, limit: int
) -> list[LogPlace]:
    """Return the places of the newest records, at most `limit`, without reading the records themselves. Raises
    `StorageUnavailable`."""
    parameters = {
        **_shared_parameters(environment_id, filters, (within.end - 1, _MAX_UINT64, _MAX_UINT32)),
        **_range_parameters(within),
        "rows": limit,
        "lists_places": True,
    }
    ((*_, places),) = (await query_limited(store, _SQL["page_end"], parameters)).rows
    return [(int(time_ns), int(offset), int(log_id)) for time_ns, offset, log_id in places]


async def logs_between(
    store: ColumnStore, environment_id: str, first: LogPlace, last: LogPlace, filters: LogFilter, limit: int
) -> list[dict[str, Any]]:
    """Return the records from the place `first` to the place `last`, both included, the newest first and at most
    `limit`. A dictionary has the columns of the statement `page` in `logs.sql`. Raises `StorageUnavailable`."""
    return await _read_page(store, _shared_parameters(environment_id, filters, last), first, limit, 0)


async def following_logs(
    store: ColumnStore, environment_id: str, within: TimeRange, filters: LogFilter, limit: int
) -> list[dict[str, Any]]:
    """Return the first `limit` records of the range, the oldest first. A dictionary has the columns of the statement
    `page` in `logs.sql`. Raises `StorageUnavailable`."""
    own = {"environment": environment_id, **asdict(filters), "words": list(filters.words)}
    last = None
    for window in within.oldest_windows():
        parameters = {**own, **_range_parameters(window), "rows": limit}
        ((time_ns, offset, log_id, found),) = (
            await query_limited(store, _SQL["following_end"], parameters)
        ).rows
        if found:
            last = LogKey(time_ns, offset, log_id, 0)
        if found == limit:
            break
    if last is None:
        return []
    shared = _shared_parameters(environment_id, filters, last[:3])
    # If one request logged several records at the same time, they have the same key. Surplus records are cut off below.
    rows = await _read_page(store, shared, (within.start, 0, 0), limit + _MAX_SAME_KEY, 0)
    return rows[::-1][:limit]


async def _find_page_end(
    store: ColumnStore, within: TimeRange, shared: dict[str, Any], wanted: int
) -> LogKey | None:
    """Return the key of the `wanted`th record. If there are fewer records, return the key of the last one. None if
    there is no record."""
    last = None
    for window in within.newest_windows(has_index=bool(shared["words"])):
        parameters = {
            **shared,
            **_range_parameters(TimeRange(window.start, within.end)),
            "rows": wanted,
            "lists_places": False,
        }
        ((time_ns, offset, log_id, found, _),) = (
            await query_limited(store, _SQL["page_end"], parameters)
        ).rows
        if found:
            last = LogKey(time_ns, offset, log_id, 0)
        if found == wanted:
            break
    return last


async def _read_page(
    store: ColumnStore, shared: dict[str, Any], first: LogPlace, rows: int, shown: int
) -> list[dict[str, Any]]:
    """Return the records from `first` on, up to the end that is given in `shared`."""
    parameters = {
        **shared,
        "last_ns": first[0],
        "last_offset": first[1],
        "last_log": first[2],
        "longest_text": LONGEST_TEXT,
        "longest_name": LONGEST_NAME,
        "longest_json": LONGEST_JSON,
        "rows": rows,
        "shown": shown,
    }
    return (await query_limited(store, _SQL["page"], parameters)).records()


def _shared_parameters(environment_id: str, filters: LogFilter, after: LogPlace) -> dict[str, Any]:
    return {
        "environment": environment_id,
        **asdict(filters),
        "words": list(filters.words),
        "after_ns": after[0],
        "after_offset": after[1],
        "after_log": after[2],
    }


def _range_parameters(within: TimeRange) -> dict[str, Any]:
    return {
        "begin_ns": within.start,
        "end_ns": within.end,
        "begin_us": microseconds_from(within.start),
        "end_us": microseconds_from(within.end),
    }


def _page_key(page: Sequence[dict[str, Any]], after: LogKey) -> LogKey:
    def place(row: dict[str, Any]) -> tuple[int, int, int]:
        return row["time_ns"], row["offset"], row["log_id"]

    last = place(page[-1])
    shown = sum(place(row) == last for row in page)
    return LogKey(*last, shown + (after.shown if last == after[:3] else 0))
