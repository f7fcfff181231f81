"""Which telemetry events were received last, of one environment or of all?"""

from dataclasses import dataclass
from typing import Any

from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_sql

_SQL = read_sql(__file__)


@dataclass(frozen=True, slots=True)
class EventCursor:
    """The newest event that was read so far: its time of receipt, its record and its position in the batch."""

    received_ms: int
    offset: int
    position: int


async def newest_events(
    store: ColumnStore, *, environment_id: str, since_ms: int, after: EventCursor, limit: int
) -> list[dict[str, Any]]:
    """Return at most `limit` events received since `since_ms` and after the cursor, the newest first.

    An empty `environment_id` matches all (the operator's view). Raises `StorageUnavailable`.
    """
    parameters = {
        "environment": environment_id,
        "since_ms": since_ms,
        "after_ms": after.received_ms,
        "after_offset": after.offset,
        "after_position": after.position,
        "limit": limit,
    }
    return (await store.query(_SQL, parameters)).records()
