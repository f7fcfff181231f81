"""Behaviour of the log in a file only; tests/contract covers the behaviour of all logs."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path

import pytest

from pipeline_contracts.errors import LogFull, StorageUnavailable
from pipeline_contracts.records import Position
from storage_backends.event_log.sqlite import SqliteEventLog, open_sqlite_log
from storage_backends.event_log.sqlite_consumer import SqliteLogConsumer

Open = Callable[..., "asyncio.Future[SqliteEventLog]"]

TOPIC = "test.topic"
MB = 2**20


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[Open]:
    logs: list[SqliteEventLog] = []

    async def reopen(max_bytes: int = 100 * MB) -> SqliteEventLog:
        logs.append(await open_sqlite_log(tmp_path / "log.sqlite", max_bytes))
        return logs[-1]

    yield reopen
    for log in logs:
        await log.close()


def consumer(log: SqliteEventLog) -> SqliteLogConsumer:
    return SqliteLogConsumer(log, "group", TOPIC)


async def values(
    log: SqliteEventLog, start: int = 0, end: int | None = None, max_bytes: int = 100 * MB
) -> list[bytes]:
    return [record.value for record in await consumer(log).read(0, start, end, max_bytes, 0)]


async def test_an_acknowledged_record_is_visible_to_a_second_reader_of_the_file(
    opened: Open, tmp_path: Path
) -> None:
    log = await opened()
    await log.append(TOPIC, b"key", b"meta", b"value")
    with closing(sqlite3.connect(tmp_path / "log.sqlite")) as other:
        assert other.execute("SELECT count(*) FROM frames").fetchone() == (1,)
    (record,) = await consumer(log).read(0, 0, None, MB, 0)
    assert (record.offset, record.key, record.meta, record.value) == (0, b"key", b"meta", b"value")


async def test_concurrent_appends_keep_their_order_and_share_commits(opened: Open, tmp_path: Path) -> None:
    log = await opened()
    await asyncio.gather(*[log.append(TOPIC, b"k", b"", b"%d" % n) for n in range(500)])
    assert await values(log) == [b"%d" % n for n in range(500)]
    with closing(sqlite3.connect(tmp_path / "log.sqlite")) as other:
        assert other.execute("SELECT count(*) FROM frames").fetchone()[0] < 50


async def test_records_and_positions_survive_a_reopening(opened: Open) -> None:
    log = await opened()
    for n in range(10):
        await log.append(TOPIC, b"k", b"", b"%d" % n)
    await consumer(log).commit(0, Position(3, 7))
    identity = log.log_id
    await log.close()
    log = await opened()
    assert log.log_id == identity
    assert await consumer(log).claim() == {0: Position(3, 7)}
    assert await values(log, 3, 7) == [b"3", b"4", b"5", b"6"]
    await log.append(TOPIC, b"k", b"", b"10")
    assert await values(log, 10) == [b"10"]
    await consumer(log).commit(0, Position(7))
    assert await consumer(log).claim() == {0: Position(7, None)}


async def test_a_new_log_has_another_identity(opened: Open, tmp_path: Path) -> None:
    first = await opened()
    second = await open_sqlite_log(tmp_path / "other.sqlite", MB)
    assert first.log_id != second.log_id
    await second.close()


async def test_a_full_log_refuses_appends_until_it_was_consumed(opened: Open) -> None:
    log = await opened(max_bytes=200_000)
    incompressible = [
        sqlite3.connect(":memory:").execute("SELECT randomblob(50000)").fetchone()[0] for _ in range(6)
    ]
    with pytest.raises(LogFull):
        for value in incompressible:
            await log.append(TOPIC, b"k", b"", value)
    assert log.stalled_reason() == "the event log is full"
    stored = len(await values(log))
    assert stored >= 3
    await consumer(log).commit(0, Position(stored))
    assert log.stalled_reason() is None
    assert log.stored_bytes() == 0
    await log.append(TOPIC, b"k", b"", b"again")


async def test_consumed_records_are_removed_and_the_file_stays_small(opened: Open, tmp_path: Path) -> None:
    log = await opened()
    block = sqlite3.connect(":memory:").execute("SELECT randomblob(200000)").fetchone()[0]
    for n in range(200):
        await log.append(TOPIC, b"k", b"", block[n:])
        if n % 5 == 4:
            await consumer(log).commit(0, Position(n + 1))
    assert await values(log) == []
    sizes = [(tmp_path / name).stat().st_size for name in ("log.sqlite", "log.sqlite-wal")]
    assert sum(sizes) < 40 * MB, "40 MB went through"


async def test_a_partly_consumed_frame_stays(opened: Open) -> None:
    log = await opened()
    await asyncio.gather(*[log.append(TOPIC, b"k", b"", b"%d" % n) for n in range(4)])
    await consumer(log).commit(0, Position(2))
    assert await values(log, 2) == [b"2", b"3"]
    assert log.stored_bytes() > 0


async def test_a_failed_commit_is_reported_and_the_next_one_works(opened: Open, tmp_path: Path) -> None:
    log = await opened()
    await log.call(lambda connection: connection.execute("PRAGMA busy_timeout=50"))
    with closing(sqlite3.connect(tmp_path / "log.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageUnavailable):
            await log.append(TOPIC, b"k", b"", b"lost")
        assert "cannot be written" in (log.stalled_reason() or "")
        other.execute("ROLLBACK")
    await log.append(TOPIC, b"k", b"", b"kept")
    assert log.stalled_reason() is None
    assert await values(log) == [b"kept"]


async def test_a_commit_that_fails_in_the_middle_is_rolled_back(opened: Open) -> None:
    log = await opened()

    def write_and_fail(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM frames")
        connection.execute("INSERT INTO a_table_that_is_not_there VALUES (1)")

    await log.append(TOPIC, b"k", b"", b"kept")
    with pytest.raises(StorageUnavailable):
        await log.call(write_and_fail)
    await log.append(TOPIC, b"k", b"", b"next")
    assert await values(log) == [b"kept", b"next"]


async def test_a_record_that_arrived_during_a_read_is_read_again_at_once(opened: Open) -> None:
    """The chunk may be full, so the record is read again for the next chunk without a further append."""
    log = await opened()
    reader = consumer(log)
    assert await reader.read(0, 0, None, MB, 0) == []
    reading = asyncio.create_task(reader.read(0, 0, None, MB, 60))
    await asyncio.sleep(0)
    await log.append(TOPIC, b"k", b"", b"v")
    assert len(await reading) == 1
    assert len(await reader.read(0, 0, None, MB, 0)) == 1


async def test_read_after_a_failed_read_queries_again(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    log = await opened()
    reader = consumer(log)
    assert await reader.read(0, 0, None, MB, 0) == []
    await log.append(TOPIC, b"k", b"", b"v")
    with monkeypatch.context() as broken:

        async def fail(*_: object) -> None:
            raise StorageUnavailable("away")

        broken.setattr(log, "read_frames", fail)
        with pytest.raises(StorageUnavailable):
            await reader.read(0, 0, None, MB, 0)
    assert len(await reader.read(0, 0, None, MB, 0)) == 1


async def test_an_unchanged_log_is_not_read_again_until_the_next_claim(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await opened()
    reader = consumer(log)
    looks: list[int] = []
    read = log.read_frames

    async def count(topic: str, start: int, max_bytes: int) -> object:
        looks.append(start)
        return await read(topic, start, max_bytes)

    monkeypatch.setattr(log, "read_frames", count)
    for _ in range(3):
        assert await reader.read(0, 0, None, MB, 0.001) == []
    assert looks == [0]
    await reader.claim()
    assert await reader.read(0, 0, None, MB, 0) == []
    await log.append(TOPIC, b"k", b"", b"v")
    assert len(await reader.read(0, 0, None, MB, 0)) == 1
    assert looks == [0, 0, 0]
