"""A consistent snapshot of all engines of the data folder, held while it is copied.

The rows and the log of a restored platform must agree. Rows of records that the log does not have would make new
records look stored, and records without rows before the position would be lost. So the snapshot is made in this order:

1. Inserts into the column store wait; a running insert is completed first.
2. In the log's writer thread, where no append and no commit of a position can come between, read transactions begin on
   the control database and then on the log. They see the same moment for as long as they are open.
3. All tables are frozen: their parts are linked into a folder that merges and retention do not change.
4. Inserts continue.

A chunk that was planned or partly inserted at that moment has its plan in the log, so the restored consumer first
checks for its rows, as after a crash.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from storage_backends.event_log.sqlite import SqliteEventLog
from storage_backends.sqlite_snapshot import SqliteSnapshot

CONTROL, LOG, STORE = "control.sqlite", "event-log.sqlite", "clickhouse"
_FREEZE = "backup"


@dataclass(frozen=True, slots=True)
class Engines:
    """The open engines of a data folder."""

    data: Path
    log: SqliteEventLog
    store: ChdbColumnStore


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Read transactions on the databases, and the folder with the frozen parts."""

    taken_at: datetime
    control: SqliteSnapshot
    log: SqliteSnapshot
    frozen: Path

    def release_databases(self) -> None:
        """End the read transactions, during which the write-ahead logs grow."""
        for database in (self.control, self.log):
            database.close()


@asynccontextmanager
async def snapshot(engines: Engines) -> AsyncIterator[Snapshot]:
    """Hold a snapshot of all engines. Raises `StorageUnavailable`."""
    await asyncio.to_thread(remove_frozen, engines.data)
    frozen = engines.data / STORE / "shadow" / _FREEZE
    async with AsyncExitStack() as stack:
        stack.push_async_callback(asyncio.to_thread, remove_frozen, engines.data)
        tables = await _list_tables(engines.store)
        async with engines.store.paused_inserts():
            control, log = await engines.log.call(lambda _: _pin(engines.data))
            taken = Snapshot(datetime.now(UTC), control, log, frozen)
            stack.callback(taken.release_databases)
            for table in tables:
                await engines.store.command(f"ALTER TABLE pharos.`{table}` FREEZE WITH NAME '{_FREEZE}'")
        yield taken


def remove_frozen(data: Path) -> None:
    """Remove the links of a snapshot, also those of a killed process, because they keep parts on the disk."""
    shutil.rmtree(data / STORE / "shadow" / _FREEZE, ignore_errors=True)


async def _list_tables(store: ChdbColumnStore) -> list[str]:
    found = await store.query(
        "SELECT name FROM system.tables WHERE database = 'pharos' AND engine LIKE '%MergeTree' ORDER BY name"
    )
    return [row[0] for row in found.rows]


def _pin(data: Path) -> tuple[SqliteSnapshot, SqliteSnapshot]:
    control = SqliteSnapshot(data / CONTROL)
    try:
        return control, SqliteSnapshot(data / LOG)
    except BaseException:
        control.close()
        raise
