"""Which of these events are stored already?"""

from collections.abc import Sequence

from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_sql

_SQL = read_sql(__file__)

# With this number, the text of a query stays below ClickHouse's limit of 256 KiB, and a value below the server's
# limit for a form value.
_BATCH = 2000


async def stored_events(
    store: ColumnStore, sites: Sequence[int], ids: Sequence[bytes], log: str, from_offset: int
) -> dict[tuple[int, bytes], int]:
    """Return the events that were stored in the last four days, as {(site, ID of the event): time of receipt in
    milliseconds since 1970}. Events in records of `log` at or after `from_offset` are left out. IDs are UUIDs as 16
    bytes. Raises `StorageUnavailable`."""
    found = {}
    for begin in range(0, len(ids), _BATCH):
        parameters = {
            "sites": list(sites),
            "ids": [identity.hex() for identity in ids[begin : begin + _BATCH]],
            "log": log,
            "from_offset": from_offset,
        }
        for site_id, event_id, received_ms in (await store.query(_SQL, parameters)).rows:
            found[site_id, event_id.bytes] = received_ms
    return found
