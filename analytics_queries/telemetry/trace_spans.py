"""What are the spans of a trace?"""

from typing import Any

from analytics_queries.telemetry.events import LONGEST_NAME, LONGEST_TEXT
from analytics_queries.telemetry.limited_sql import query_limited, read_limited_sql
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_sql(__file__)
_LONGEST_JSON = 4096
"""Maximum number of bytes of the attributes of a span, and of each of its events."""
# The response for a trace of 5,000 spans must stay small enough for a browser.
_LONGEST_TRACE = 8 * 1024 * 1024
_MAX_EVENTS = 20


async def trace_spans(
    store: ColumnStore, environment_id: str, trace_id: str, limit: int
) -> list[dict[str, Any]]:
    """Return at most `limit` spans, sorted by their start. A dictionary has the columns of `trace_spans.sql`.

    `trace_id` is in lower case. Each span has at most its first 20 events. Spans beyond the first 8 MiB have no
    attributes and no events. Raises `StorageUnavailable`.
    """
    parameters = {
        "environment": environment_id,
        "trace": trace_id,
        "longest_text": LONGEST_TEXT,
        "longest_name": LONGEST_NAME,
        "longest_json": _LONGEST_JSON,
        "longest_trace": _LONGEST_TRACE,
        "events": _MAX_EVENTS,
        "limit": limit,
    }
    return (await query_limited(store, _SQL, parameters)).records()
