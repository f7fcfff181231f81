"""What are the spans of a trace?"""

from typing import Any

from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_sql

_SQL = read_sql(__file__)


async def trace_spans(
    store: ColumnStore, *, environment_id: str, trace_id: str, limit: int
) -> list[dict[str, Any]]:
    """Return at most `limit` spans in the order of their start; times are nanoseconds. `trace_id` is in lower case; an
    empty `environment_id` matches all. Raises `StorageUnavailable`."""
    parameters = {"environment": environment_id, "trace": trace_id, "limit": limit}
    return (await store.query(_SQL, parameters)).records()
