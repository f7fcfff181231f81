"""Change how long tables keep their rows, and delete what is older.

Shortening a retention drops whole partitions at once and rewrites nothing, so that it frees space on a full disk.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import date, timedelta

from storage_backends.column_store.interface import ColumnStore
from storage_backends.column_store.replicated_schema import replicate
from storage_backends.column_store.stored_kinds import KINDS, StoredTable, partition_end
from storage_backends.sql_files import read_statements

_SQL = read_statements(__file__)
_TTL = re.compile(r" TTL .*?toInterval(Hour|Day|Week|Month|Year)\((\d+)\)")
_DAYS = {"Hour": 1 / 24, "Day": 1, "Week": 7, "Month": 30, "Year": 365}
# Otherwise a server refuses to drop partitions over 50 GB.
_ANY_SIZE = "SETTINGS max_partition_size_to_drop = 0"


async def read_retention(store: ColumnStore) -> Mapping[str, int]:
    """Return for how many days each kind is kept now, by the shortest TTL of its tables. Raises
    `StorageUnavailable`."""
    days = await _read_days(store)
    found = {
        kind: [days[table.name] for table in tables if table.name in days] for kind, tables in KINDS.items()
    }
    return {kind: min(of_tables) for kind, of_tables in found.items() if of_tables}


async def _read_days(store: ColumnStore) -> Mapping[str, int]:
    """Return for how many days each table keeps its rows; tables without a TTL are left out."""
    return {
        name: max(1, round(_DAYS[found[1]] * int(found[2])))
        for name, engine in (await store.query(_SQL["read_engines"])).rows
        if (found := _TTL.search(engine)) is not None
    }


async def _set_retention(
    store: ColumnStore, kind: str, days: int, present: Mapping[str, int], cluster: str | None
) -> bool:
    """Give each table of the kind this TTL, and return whether one had another. Raises `StorageUnavailable`.

    `present`: the days of each table. After a failure some tables may have the new TTL and others not.

    A longer TTL is also written to the parts that exist, which the store does later. A shorter one is not: they would
    be rewritten; `drop_expired` deletes them.
    """
    different = [table for table in KINDS[kind] if present.get(table.name) != days]
    for table in different:
        ttl = f"{table.time} + toIntervalDay({days:d})"
        rewrite = int(days > present.get(table.name, 0))
        settings = f"SETTINGS materialize_ttl_after_modify = {rewrite}"
        await _alter(store, table, f"MODIFY TTL {ttl} {settings}", cluster)
    return bool(different)


async def drop_expired(
    store: ColumnStore, kind: str, days: int, today: date, cluster: str | None = None
) -> list[str]:
    """Drop the partitions of the kind whose rows are all older than so many days, and return their names.

    Raises `StorageUnavailable`.
    """
    tables = {table.name: table for table in KINDS[kind]}
    rows = (await store.query(_SQL["read_partitions"], {"tables": [*tables]})).rows
    dropped = []
    for name, partition_id in rows:
        if is_expired(partition_end(tables[name].unit, partition_id), days, today):
            await _alter(store, tables[name], f"DROP PARTITION ID '{partition_id}' {_ANY_SIZE}", cluster)
            dropped.append(f"{name} {partition_id}")
    return dropped


def is_expired(end: date, days: int, today: date) -> bool:
    """True if everything before `end` is older than so many days."""
    return end + timedelta(days=days) <= today


async def apply_retention(
    store: ColumnStore, wanted: Iterable[tuple[str, int]], today: date, cluster: str | None = None
) -> list[str]:
    """Make the store keep each kind for so many days; return what was changed. Raises `StorageUnavailable`."""
    present = await _read_days(store)
    changed = []
    for kind, days in wanted:
        # First what frees space: the change of the table writes a file.
        changed += await drop_expired(store, kind, days, today, cluster)
        if await _set_retention(store, kind, days, present, cluster):
            changed.append(f"{kind}: {days} days")
    return changed


async def _alter(store: ColumnStore, table: StoredTable, change: str, cluster: str | None) -> None:
    statement = f"ALTER TABLE pharos.{table.name} {change}"
    await store.command(statement if cluster is None else replicate(statement, cluster))
