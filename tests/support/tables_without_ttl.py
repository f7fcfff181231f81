"""Tables of the column store without TTL, for tests whose rows lie years back."""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from storage_backends.column_store.chdb_embedded import ChdbColumnStore

_TABLES = (
    "SELECT name, create_table_query FROM system.tables "
    "WHERE database = 'pharos' AND name IN {names:Array(String)}"
)
_TTL = re.compile(r" TTL (.+?) SETTINGS ")


@asynccontextmanager
async def tables_without_ttl(store: ChdbColumnStore, tables: Sequence[str]) -> AsyncIterator[None]:
    """Remove the TTL of the tables, and set it again afterwards for the other tests of the process."""
    rows = (await store.query(_TABLES, {"names": list(tables)})).rows
    found = {name: ttl[1] for name, query in rows if (ttl := _TTL.search(query))}
    assert found.keys() == set(tables)
    for name in tables:
        await store.command(f"ALTER TABLE pharos.{name} REMOVE TTL")
    yield
    for name, ttl in found.items():
        await store.command(
            f"ALTER TABLE pharos.{name} MODIFY TTL {ttl} SETTINGS materialize_ttl_after_modify = 0"
        )
