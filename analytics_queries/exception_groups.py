"""Which exceptions were received, grouped into issues?"""

from typing import Any

from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_sql

_SQL = read_sql(__file__)


async def exception_groups(
    store: ColumnStore, *, environment_id: str, since_ms: int, limit: int, group_id: str = ""
) -> list[dict[str, Any]]:
    """Return groups, the last seen first: environment_id, id (16 hexadecimal digits, stable), count, first_seen,
    last_seen, affected_users (the largest number in a telemetry event, or the number of distinct user.id and
    enduser.id, whichever is larger), services, exception_type, newest_message, top_frame, newest_stack,
    newest_trace_id.

    Exceptions are telemetry events of that type, span events of that name, and log records with `exception.type`.
    An empty `environment_id` or `group_id` matches all. Raises `StorageUnavailable`.
    """
    parameters = {
        "environment": environment_id,
        "since_ms": since_ms,
        "limit": limit,
        "id": group_id,
    }
    return (await store.query(_SQL, parameters)).records()
