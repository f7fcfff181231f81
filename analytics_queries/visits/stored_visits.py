"""Which stored visits may an event still join?"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from pipeline_contracts.times import from_epoch_ms
from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_sql

_SQL = read_sql(__file__)
# With this number, the text of a query stays below ClickHouse's limit of 256 KiB, and a value below the server's
# limit for a form value.
_BATCH = 4000
_UNLIMITED = 2**63 - 1


@dataclass(frozen=True, slots=True)
class StoredVisit:
    """A visit, computed from its stored events."""

    site_id: int
    visit_id: int
    keys: frozenset[int]
    """Hashes of the visitors or sessions that made the visit."""
    first_ms: int
    last_ms: int


async def stored_visits(
    store: ColumnStore,
    log: str,
    before_offset: int,
    since_ms: int,
    keys: Sequence[int] = (),
    *,
    most: int = _UNLIMITED,
) -> list[StoredVisit]:
    """Return the visits of `keys` that have an event since `since_ms` (milliseconds since 1970). Without keys,
    return all visits. Only events of this log before `before_offset` count. `most`: return only this many of the
    newest visits. Raises `StorageUnavailable`."""
    found = []
    for begin in range(0, len(keys) or 1, _BATCH):
        parameters = {
            "log": log,
            "before_offset": before_offset,
            "since_ms": since_ms,
            # A visit lasts at most a day, so no event can join a visit that began earlier.
            "since": (from_epoch_ms(since_ms) - timedelta(days=1)).date(),
            "keys": list(keys[begin : begin + _BATCH]),
            "most": most,
        }
        for site_id, visit_id, by, before, first_ms, last_ms in (await store.query(_SQL, parameters)).rows:
            found.append(StoredVisit(site_id, visit_id, frozenset([*by, *before]), first_ms, last_ms))
    return found
