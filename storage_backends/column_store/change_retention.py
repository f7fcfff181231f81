"""Changes how long tables keep their rows, and deletes older rows.

Shortening a retention drops whole partitions at once and rewrites nothing, so it frees space even on a full disk.
"""

import logging
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from storage_backends.column_store.interface import ColumnStore
from storage_backends.column_store.replicated_schema import replicate
from storage_backends.column_store.stored_kinds import KINDS, StoredTable, partition_end
from storage_backends.sql_files import read_statements

logger = logging.getLogger(__name__)

_SQL = read_statements(__file__)
_TTL = re.compile(r" TTL .*?toInterval(Hour|Day|Week|Month|Year)\((\d+)\)")
_DAYS = {"Hour": 1 / 24, "Day": 1, "Week": 7, "Month": 30, "Year": 365}
# Without this setting, a server refuses to drop partitions over 50 GB.
_ANY_SIZE = "SETTINGS max_partition_size_to_drop = 0"


@dataclass(frozen=True, slots=True)
class AppliedRetention:
    """The changes that `apply_retention` has made, as texts for the log."""

    changed: Sequence[str]
    refused: Sequence[str]
    """Settings that were not applied, because the store keeps the data longer."""


async def read_retention(store: ColumnStore) -> Mapping[str, int]:
    """Return how many days the store keeps each kind of data now. If a kind has several tables, the longest time
    counts. Raises `StorageUnavailable`."""
    days_by_table = await _read_ttls(store)
    found = {
        kind: [days_by_table[table.name] for table in tables if table.name in days_by_table]
        for kind, tables in KINDS.items()
    }
    return {kind: max(days) for kind, days in found.items() if days}


async def shorten_retention(
    store: ColumnStore, kind: str, days: int, today: date, cluster: str | None = None
) -> None:
    """Delete the rows of `kind` that are older than `days` days. Set a longer TTL of the kind's tables to `days`.

    Raises `StorageUnavailable`. Some rows may be deleted already then; another call deletes the rest.
    """
    present = await _read_ttls(store)
    # Free space first: changing a table writes a file.
    await _drop_expired(store, KINDS[kind], days, today, cluster)
    for table in KINDS[kind]:
        if present.get(table.name, math.inf) > days:
            await _set_ttl(store, table, days, is_longer=False, cluster=cluster)


async def apply_retention(
    store: ColumnStore, wanted: Iterable[tuple[str, int]], today: date, cluster: str | None = None
) -> AppliedRetention:
    """Make the store keep each kind of data for at least the given number of days. Drop partitions whose rows have all
    expired.

    This never shortens a retention: if the database was restored, its settings may be older than later changes by
    people. Raises `StorageUnavailable`.
    """
    present = await _read_ttls(store)
    changed, refused = [], []
    for kind, days in wanted:
        longer = [table for table in KINDS[kind] if present.get(table.name, math.inf) > days]
        if longer:
            refused.append(
                f"{kind}: {days} days, but {', '.join(table.name for table in longer)} is kept longer"
            )
        # A data part keeps the expiry date with which it was written, so the store itself would drop it later.
        others = [table for table in KINDS[kind] if table not in longer]
        changed += await _drop_expired(store, others, days, today, cluster)
        for table in others:
            # Check each table: an interrupted change has reached only some tables, and a later version may add one.
            if present[table.name] < days:
                await _set_ttl(store, table, days, is_longer=True, cluster=cluster)
                changed.append(f"{table.name}: {days} days")
    return AppliedRetention(changed, refused)


def is_expired(end: date, days: int, today: date) -> bool:
    """Return True if all days before `end` are more than `days` days ago."""
    return end + timedelta(days=days) <= today


async def _read_ttls(store: ColumnStore) -> Mapping[str, int]:
    """Return the retention in days of each table that has a TTL."""
    days_by_table = {}
    for name, engine in (await store.query(_SQL["read_engines"])).rows:
        if (found := _TTL.search(engine)) is not None:
            days_by_table[name] = max(1, round(_DAYS[found[1]] * int(found[2])))
    return days_by_table


async def _set_ttl(
    store: ColumnStore, table: StoredTable, days: int, *, is_longer: bool, cluster: str | None
) -> None:
    """Set the TTL of the table to `days` days.

    The store also applies a longer TTL to existing data parts, some time later. It does not apply a shorter TTL to
    them, because it would have to rewrite the parts. `_drop_expired` deletes these rows instead.
    """
    ttl = f"{table.time} + toIntervalDay({days:d})"
    settings = f"SETTINGS materialize_ttl_after_modify = {int(is_longer)}"
    await _alter(store, table, f"MODIFY TTL {ttl} {settings}", cluster)


async def _drop_expired(
    store: ColumnStore, tables: Sequence[StoredTable], days: int, today: date, cluster: str | None
) -> list[str]:
    """Drop the partitions of these tables whose rows are all older than this many days, and return their names."""
    if not tables:
        return []
    by_name = {table.name: table for table in tables}
    rows = (await store.query(_SQL["read_partitions"], {"tables": [*by_name]})).rows
    dropped = []
    for name, partition_id in rows:
        if is_expired(partition_end(by_name[name].unit, partition_id), days, today):
            # Log the deletion before it happens: nothing else records what was deleted.
            logger.info("retention: partition %s of %s is deleted, after %d days", partition_id, name, days)
            await _alter(store, by_name[name], f"DROP PARTITION ID '{partition_id}' {_ANY_SIZE}", cluster)
            dropped.append(f"{name} {partition_id}")
    return dropped


async def _alter(store: ColumnStore, table: StoredTable, change: str, cluster: str | None) -> None:
    statement = f"ALTER TABLE pharos.{table.name} {change}"
    await store.command(statement if cluster is None else replicate(statement, cluster))
