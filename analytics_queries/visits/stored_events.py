"""Which of these events are stored already?"""

from collections.abc import Sequence
from uuid import UUID

from analytics_queries.sql_text import sql_beside
from storage_backends.column_store.interface import ColumnStore

_SQL = sql_beside(__file__)


async def stored_events(
    store: ColumnStore,
    sites: Sequence[int],
    ids: Sequence[UUID],
    since_ms: int,
    log: str,
    from_offset: int,
) -> dict[tuple[int, int], int]:
    """{(site, number of the event's UUID): time of receipt in milliseconds since 1970} of those received since
    `since_ms`, without what the log has from this offset on. Raises `StorageUnavailable`."""
    parameters = {
        "sites": list(sites),
        "ids": list(ids),
        "since_ms": since_ms,
        "log": log,
        "from_offset": from_offset,
    }
    rows = (await store.query(_SQL, parameters)).rows
    return {(site_id, event_id.int): received_ms for site_id, event_id, received_ms in rows}
