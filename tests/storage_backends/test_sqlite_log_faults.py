"""The log in a file with a full disk, failed commits and cancelled tasks: its size stays correct, every request
completes, and it recovers without a restart."""

import asyncio
import os
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import msgspec
import pytest

from consumers.dead_letters import DeadLetter
from pipeline_contracts.errors import LogFull, StorageUnavailable
from pipeline_contracts.records import Position
from storage_backends.event_log.sqlite import SqliteEventLog, open_sqlite_log
from storage_backends.event_log.sqlite_consumer import SqliteLogConsumer
from storage_backends.event_log.sqlite_writer import Bounds
from wiring.embedded.dead_letters import replay_dead_letters

TOPIC = "test.topic"
DEAD = "test.topic.dead"
MB = 2**20


@asynccontextmanager
async def opened(
    path: Path, max_bytes: int = 100 * MB, dead_bytes: int = MB, min_free: int = 0
) -> AsyncIterator[SqliteEventLog]:
    log = await open_sqlite_log(path / "log.sqlite", Bounds(max_bytes, dead_bytes, min_free))
    try:
        yield log
    finally:
        await log.close()


def stored_sizes(path: Path) -> tuple[int, int]:
    """Return the bytes of waiting records and of dead letters in the file."""
    sql = "SELECT coalesce(sum(size), 0) FROM frames WHERE topic"
    with closing(sqlite3.connect(path / "log.sqlite")) as other:
        counts = [other.execute(f"{sql} {choice} LIKE '%.dead'").fetchone()[0] for choice in ("NOT", "")]
    return counts[0], counts[1]


def reported_sizes(log: SqliteEventLog) -> tuple[int, int]:
    return log.stored_bytes(), log.dead_letter_bytes()


def consumer(log: SqliteEventLog) -> SqliteLogConsumer:
    return SqliteLogConsumer(log, "group", TOPIC)


async def limit_pages(log: SqliteEventLog, pages: int) -> None:
    """Limit the file to this many pages, or to its current size: SQLite then reports a full disk."""
    await log.call(lambda connection: connection.execute(f"PRAGMA max_page_count={pages}").fetchall())


async def test_a_full_disk_refuses_appends_until_there_is_space(tmp_path: Path) -> None:
    async with opened(tmp_path, max_bytes=4 * MB) as log:
        await log.append(TOPIC, b"k", b"", b"before")
        await limit_pages(log, 1)
        refused = 0
        acknowledged = [b"before"]
        # Far more than the log may store, which would matter if it counted refused appends.
        for number in range(12):
            value = b"%d" % number + os.urandom(600_000)
            try:
                await log.append(TOPIC, b"k", b"", value)
                acknowledged.append(value)
            except StorageUnavailable as error:
                assert not isinstance(error, LogFull)
                refused += 1
            assert reported_sizes(log) == stored_sizes(tmp_path)
        assert refused > 9
        assert "full" in (log.stalled_reason() or "")
        await limit_pages(log, 2**30)
        # Readiness returns without any append.
        async with asyncio.timeout(60):
            while log.stalled_reason() is not None:
                await asyncio.sleep(0.02)
        await log.append(TOPIC, b"k", b"", b"after")
        assert reported_sizes(log) == stored_sizes(tmp_path)
        records = await consumer(log).read(0, 0, None, 100 * MB, 0)
        assert [record.value for record in records] == [*acknowledged, b"after"]
        await consumer(log).commit(0, Position(len(records)))
        assert reported_sizes(log) == (0, 0) == stored_sizes(tmp_path)


async def test_a_disk_with_little_space_is_reserved_for_the_consumers(tmp_path: Path) -> None:
    async with opened(tmp_path) as log:
        await log.append(TOPIC, b"k", b"", b"before")
    async with opened(tmp_path, min_free=2**62) as log:
        with pytest.raises(LogFull):
            log.append(TOPIC, b"k", b"", b"refused")
        assert "MiB free" in (log.stalled_reason() or "")
        await log.append(DEAD, b"k", b"", b"buried")
        await consumer(log).commit(0, Position(1))
        assert "MiB free" in (log.stalled_reason() or "")
        object.__setattr__(log._bounds, "min_free_bytes", 0)
        # The writer checks the disk again without an append.
        async with asyncio.timeout(60):
            while log.stalled_reason() is not None:
                await asyncio.sleep(0.02)
        await log.append(TOPIC, b"k", b"", b"after")


async def test_the_consumer_can_empty_the_log_on_a_full_disk(tmp_path: Path) -> None:
    async with opened(tmp_path) as log:
        for _ in range(3):
            await log.append(TOPIC, b"k", b"", os.urandom(200_000))
        await consumer(log).commit(0, Position(0))
        await limit_pages(log, 1)
        with pytest.raises(StorageUnavailable):
            await log.append(TOPIC, b"k", b"", os.urandom(200_000))
        await consumer(log).commit(0, Position(2))
        await log.append(TOPIC, b"k", b"", os.urandom(200_000))
        assert reported_sizes(log) == stored_sizes(tmp_path)


def _fail(connection: sqlite3.Connection) -> None:
    raise sqlite3.OperationalError("database or disk is full")


def _fail_at_commit(connection: sqlite3.Connection) -> None:
    """SQLite checks the constraint at the commit, and leaves the transaction open."""
    connection.execute("PRAGMA defer_foreign_keys=1")
    connection.execute("INSERT INTO followers VALUES (1)")


async def _prepare_constraint(log: SqliteEventLog) -> None:
    await log.call(lambda c: c.execute("CREATE TABLE leaders (id INTEGER PRIMARY KEY)"))
    await log.call(lambda c: c.execute("CREATE TABLE followers (leader REFERENCES leaders (id))"))
    # Takes effect only outside of a transaction.
    await log.call(lambda c: (c.execute("COMMIT"), c.execute("PRAGMA foreign_keys=1"), c.execute("BEGIN")))


def _succeed(connection: sqlite3.Connection) -> str:
    return "succeeded"


_OUTCOMES: dict[str, tuple[Callable[[sqlite3.Connection], object], type[Exception] | None]] = {
    "fails": (_fail, StorageUnavailable),
    "fails at COMMIT": (_fail_at_commit, StorageUnavailable),
    "succeeds": (_succeed, None),
}


@pytest.mark.parametrize(("run", "raised"), _OUTCOMES.values(), ids=_OUTCOMES)
async def test_a_cancelled_job_does_not_affect_the_others_of_its_commit(
    tmp_path: Path,
    run: Callable[[sqlite3.Connection], object],
    raised: type[Exception] | None,
) -> None:
    async with opened(tmp_path) as log:
        await _prepare_constraint(log)
        for canceled in [(), (0,), (1,), (2,), (3,), (4,), (0, 1), (1, 2, 3), (0, 1, 2, 3, 4)]:
            go_on, holding = await _blocked_writer(log)
            waiting = [
                asyncio.create_task(_waited(one))
                for one in (
                    log.call(_succeed),
                    log.append(TOPIC, b"k", b"", b"one"),
                    log.call(run),
                    log.append(DEAD, b"k", b"", b"two"),
                    log.call(_succeed),
                )
            ]
            for _ in range(3):
                await asyncio.sleep(0)
            for index in canceled:
                waiting[index].cancel()
            go_on.set()
            async with asyncio.timeout(60):
                answers = await asyncio.gather(*waiting, return_exceptions=True)
                await holding
            for index, result in enumerate(answers):
                if index in canceled:
                    assert isinstance(result, asyncio.CancelledError)
                elif raised is not None:
                    assert isinstance(result, raised), (canceled, index, result)
                else:
                    assert not isinstance(result, BaseException), (canceled, index, result)
            assert reported_sizes(log) == stored_sizes(tmp_path)
            assert log._unwritten == 0
        await log.append(TOPIC, b"k", b"", b"next")
        assert log.stalled_reason() is None


async def _blocked_writer(log: SqliteEventLog) -> tuple[threading.Event, "asyncio.Task[None]"]:
    """Block the writer until the event is set: all jobs until then share the next commit."""
    started, go_on = threading.Event(), threading.Event()

    def block(connection: sqlite3.Connection) -> None:
        started.set()
        go_on.wait()

    holding = asyncio.create_task(log.call(block))
    await asyncio.to_thread(started.wait)
    return go_on, holding


async def _waited(one: Awaitable[object]) -> object:
    return await one


async def test_a_consumer_canceled_in_its_commit_leaves_the_size_correct(tmp_path: Path) -> None:
    async with opened(tmp_path) as log:
        await log.append(TOPIC, b"k", b"", os.urandom(100_000))
        go_on, holding = await _blocked_writer(log)
        committing = asyncio.create_task(consumer(log).commit(0, Position(1)))
        await asyncio.sleep(0)
        committing.cancel()
        go_on.set()
        await holding
        await log.call(_succeed)
        assert reported_sizes(log) == stored_sizes(tmp_path) == (0, 0)


async def test_dead_letters_have_their_own_limit_and_the_oldest_are_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path, max_bytes=300_000, dead_bytes=300_000) as log:
        # More dead letters than the whole log may hold: they do not count towards the log's limit.
        for number in range(8):
            await log.append(DEAD, b"k", b"", b"%d" % number + os.urandom(90_000))
            assert reported_sizes(log) == stored_sizes(tmp_path)
            await log.append(TOPIC, b"k", b"", b"waiting")
        assert log.dead_letters_removed == 5
        # Logged once for many: a flood of dead letters must not become a flood of log lines.
        assert caplog.text.count("dead letters: the oldest 1 were removed") == 1
        stored_letters = [record.value[:1] for record in await log.read_frames(DEAD, 0, 100 * MB)]
        assert stored_letters == [b"5", b"6", b"7"]
        # A dead letter above the limit stays until the next one arrives.
        await log.append(DEAD, b"k", b"", b"8" + os.urandom(400_000))
        assert [record.offset for record in await log.read_frames(DEAD, 0, 100 * MB)] == [8]
        assert log.stalled_reason() is None
        # A full log still accepts dead letters.
        with pytest.raises(LogFull):
            while True:
                await log.append(TOPIC, b"k", b"", os.urandom(90_000))
        await log.append(DEAD, b"k", b"", b"9")
        assert reported_sizes(log) == stored_sizes(tmp_path)
    async with opened(tmp_path, max_bytes=300_000) as log:
        assert reported_sizes(log) == stored_sizes(tmp_path)


async def test_a_replay_by_another_process_leaves_the_size_correct(tmp_path: Path) -> None:
    async with opened(tmp_path) as log:
        for number in range(3):
            meta = msgspec.msgpack.encode(DeadLetter(log.log_id, number, "why", b"meta", 0))
            await log.append(DEAD, b"k", meta, os.urandom(50_000))
        assert await asyncio.to_thread(replay_dead_letters, tmp_path / "log.sqlite", TOPIC, {1}) == 1
        await log.call(lambda connection: None)
        assert reported_sizes(log) == stored_sizes(tmp_path)
        assert log.stored_bytes() > 50_000
        await consumer(log).commit(0, Position(1))
        assert (reported_sizes(log)[0], stored_sizes(tmp_path)[0]) == (0, 0)


async def test_a_file_of_an_earlier_version_is_opened_with_the_correct_size(tmp_path: Path) -> None:
    async with opened(tmp_path) as log:
        await log.append(TOPIC, b"k", b"", os.urandom(50_000))
        identity, before = log.log_id, reported_sizes(log)
    with closing(sqlite3.connect(tmp_path / "log.sqlite", isolation_level=None)) as other:
        other.execute("ALTER TABLE topics DROP COLUMN stored_bytes")
    async with opened(tmp_path) as log:
        assert (log.log_id, reported_sizes(log)) == (identity, before)
        await consumer(log).commit(0, Position(1))
        assert reported_sizes(log) == stored_sizes(tmp_path) == (0, 0)
