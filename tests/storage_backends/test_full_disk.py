"""Other files on the full disk of the event log: they refuse writes, keep their data, and recover with space."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.times import DAY_MS
from storage_backends.monitor_states.interface import Progress
from storage_backends.monitor_states.sqlite import SqliteMonitorStates, open_sqlite_monitor_states
from storage_backends.salts.in_file import FileSalts
from tests.support.databases import migrated_database


@pytest.fixture
async def states(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SqliteMonitorStates]:
    async with migrated_database("sqlite", request, tmp_path) as url:
        opened = await open_sqlite_monitor_states(Path(url.partition(":///")[2]))
        yield opened
        await opened.close()


async def _note_many(states: SqliteMonitorStates, topic: str) -> None:
    """Return more rows than the last page has space for."""
    for partition in range(400):
        await states.note_progress(Progress(topic, partition, 5))


async def test_monitor_states_recover_when_the_disk_has_space(states: SqliteMonitorStates) -> None:
    connection = states._connection
    await states._call(lambda: connection.execute("PRAGMA max_page_count=1").fetchall())
    with pytest.raises(StorageUnavailable, match="full"):
        await _note_many(states, "refused")
    await states._call(lambda: connection.execute(f"PRAGMA max_page_count={2**30}").fetchall())
    await _note_many(states, "taken")
    assert len(await states.read_progress("taken")) == 400


async def test_a_failed_commit_of_monitor_states_leaves_no_open_transaction(
    states: SqliteMonitorStates,
) -> None:
    connection = states._connection
    await states._call(lambda: connection.execute("CREATE TABLE leaders (id INTEGER PRIMARY KEY)"))
    await states._call(
        lambda: connection.execute(
            "CREATE TABLE followers (leader REFERENCES leaders (id) DEFERRABLE INITIALLY DEFERRED)"
        )
    )

    def fail_at_commit() -> None:
        with states._transaction():
            connection.execute("INSERT INTO followers VALUES (1)")

    with pytest.raises(sqlite3.IntegrityError):
        await states._call(fail_at_commit)
    await states.apply_queues([], [], Progress("topic", 0, 7))
    assert await states.read_progress("topic") == {0: 7}


async def test_a_salt_is_returned_only_after_it_is_written(tmp_path: Path) -> None:
    """Otherwise a restart would count the day's visitors again."""
    path = tmp_path / "salts.json"
    salts = FileSalts(path)
    first = await salts.find_or_create(1, DAY_MS)
    # In the folder of the temporary file: every write finds a full disk.
    path.with_suffix(".new").symlink_to("/dev/full")
    for _ in range(2):
        with pytest.raises(StorageUnavailable, match="No space left"):
            await salts.find_or_create(2, 2 * DAY_MS)
    assert await salts.find_or_create(1, DAY_MS) == first == await FileSalts(path).find_or_create(1, DAY_MS)
    path.with_suffix(".new").unlink()
    second = await salts.find_or_create(2, 2 * DAY_MS)
    assert second is not None and second == await FileSalts(path).find_or_create(2, 2 * DAY_MS)
