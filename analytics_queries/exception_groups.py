"""Which exceptions came, grouped into issues?"""

from typing import Any

from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_sql

_SQL = read_sql(__file__)


async def exception_groups(
    store: ColumnStore, *, environment_id: str, since_ms: int, limit: int, group_id: str = ""
) -> list[dict[str, Any]]:
    """The groups seen last first: environment_id, id (16 hexadecimal digits, the same each time), count, first_seen,
    last_seen, affected_users (the most that a telemetry event told, or the distinct user.id and enduser.id, whichever
    is more), services, exception_type, newest_message, top_frame, newest_stack, newest_trace_id.

    Exceptions are telemetry events of that type, span events of that name, and log records with `exception.type`.
    Empty texts leave everything in. Raises `StorageUnavailable`.
    """
    parameters = {
        "environment": environment_id,
        "since_ms": since_ms,
        "limit": limit,
        "id": group_id,
    }
    return (await store.query(_SQL, parameters)).records()
