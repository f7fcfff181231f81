"""The event log in one SQLite file: group commit, fsynced, one partition a topic, bounded in size.

Appends gather while the writer thread commits the ones before, so a commit carries as many records as came in
during the last fsync: nobody waits for a timer, and under load a commit costs a fraction of a request. A frame
(the records of one topic in one commit) is one compressed row.
"""

import asyncio
import contextlib
import logging
import queue
import secrets
import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pipeline_contracts.errors import LogFull, StorageUnavailable
from pipeline_contracts.records import LogRecord
from storage_backends.event_log.sqlite_frames import (
    Compressor,
    append_records,
    connect,
    new_compressor,
    read_frame,
)

logger = logging.getLogger(__name__)

_SCHEMA = Path(__file__).with_name("schema.sql").read_text()


class _Committed(asyncio.Future[None]):
    """Shared by all appends of one group; a request that gives up must not cancel it for the others."""

    def cancel(self, msg: Any | None = None) -> bool:
        return False


class _Group:
    """Appends that will be committed together."""

    __slots__ = ("records", "size", "done")

    def __init__(self, done: _Committed) -> None:
        self.records: dict[str, list[tuple[bytes, bytes, bytes]]] = {}
        self.size = 0
        self.done = done


class _Call:
    """A function to run on the writer's connection inside a transaction, with a future for its result."""

    __slots__ = ("run", "done")

    def __init__(self, run: Callable[[sqlite3.Connection], Any], done: "asyncio.Future[Any]") -> None:
        self.run = run
        self.done = done


class SqliteEventLog:
    """The file, its writer thread and the readers' connection. Made by `open_sqlite_log`."""

    def __init__(self, path: Path, max_bytes: int, loop: asyncio.AbstractEventLoop) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._loop = loop
        self._queue: queue.SimpleQueue[_Group | _Call | None] = queue.SimpleQueue()
        self._open_group: _Group | None = None
        self._unwritten = 0
        self._stored = 0
        self._failure: str | None = None
        self._closing = False
        self._appended: dict[str, asyncio.Event] = {}
        self._reader = connect(path)
        self._reader_lock = threading.Lock()
        connection = connect(path)
        connection.executescript(_SCHEMA)
        with contextlib.closing(connection.cursor()) as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            row = cursor.execute("SELECT log_id FROM log_identity").fetchone()
            if row is None:
                row = (secrets.token_hex(6),)
                cursor.execute("INSERT INTO log_identity VALUES (?)", row)
            cursor.execute("COMMIT")
        self.log_id: str = row[0]
        self._stored = connection.execute("SELECT coalesce(sum(size), 0) FROM frames").fetchone()[0]
        self._thread = threading.Thread(
            target=self._write, args=(connection,), name="event-log-writer", daemon=True
        )
        self._thread.start()

    # The edge's side.

    def append(self, topic: str, key: bytes, meta: bytes, value: bytes) -> "asyncio.Future[None]":
        if self._closing:
            raise StorageUnavailable("The event log is closing.")
        if self._stored + self._unwritten > self._max_bytes:
            raise LogFull("The event log is full; the consumers are behind.")
        group = self._open_group
        if group is None:
            group = self._open_group = _Group(_Committed(loop=self._loop))
            # Hand over at the end of this turn of the loop: all requests that were ready ride along.
            self._loop.call_soon(self._hand_over)
        records = group.records.get(topic)
        if records is None:
            records = group.records[topic] = []
        records.append((key, meta, value))
        size = len(value) + len(meta) + 64
        group.size += size
        self._unwritten += size
        return group.done

    def stalled_reason(self) -> str | None:
        if self._closing:
            return "the event log is closing"
        if self._failure is not None:
            return self._failure
        if self._stored + self._unwritten > self._max_bytes:
            return "the event log is full"
        return None

    def stored_bytes(self) -> int:
        """Bytes of compressed records that wait in the file."""
        return self._stored

    async def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._hand_over()
        self._queue.put(None)
        await asyncio.to_thread(self._thread.join)
        with self._reader_lock:
            self._reader.close()

    def _hand_over(self) -> None:
        group = self._open_group
        if group is not None:
            self._open_group = None
            self._queue.put(group)

    # The consumers' side.

    async def read_frames(self, topic: str, start: int, max_bytes: int) -> list[LogRecord]:
        """Records of `topic` from `start`, whole frames until `max_bytes` of values are reached."""
        return await asyncio.to_thread(self._read_frames, topic, start, max_bytes)

    def _read_frames(self, topic: str, start: int, max_bytes: int) -> list[LogRecord]:
        records: list[LogRecord] = []
        size = 0
        try:
            with self._reader_lock, contextlib.closing(self._reader.cursor()) as cursor:
                cursor.execute(
                    "SELECT first, payload FROM frames WHERE topic = ? AND past_last > ? ORDER BY past_last",
                    (topic, start),
                )
                for first, payload in cursor:
                    for record in read_frame(first, payload):
                        if record.offset >= start:
                            records.append(record)
                            size += len(record.value)
                    if size >= max_bytes:
                        break
        except sqlite3.Error as error:
            raise StorageUnavailable(f"The event log cannot be read: {error}") from error
        return records

    async def call(self, run: Callable[[sqlite3.Connection], Any]) -> Any:
        """Run a function in a transaction of the writer; its changes are durable when this returns."""
        if self._closing:
            raise StorageUnavailable("The event log is closing.")
        done: asyncio.Future[Any] = self._loop.create_future()
        self._queue.put(_Call(run, done))
        return await done

    def released(self, stored_bytes: int) -> None:
        """Told by the consumer's side how many bytes were removed."""
        self._stored -= stored_bytes

    def appended_event(self, topic: str) -> asyncio.Event:
        """Set at each commit that adds to the topic."""
        return self._appended.setdefault(topic, asyncio.Event())

    # The writer thread.

    def _write(self, connection: sqlite3.Connection) -> None:
        last = False
        compressor = new_compressor()
        while not last:
            jobs: list[_Group | _Call] = []
            job = self._queue.get()
            while True:
                if job is None:
                    last = True
                else:
                    jobs.append(job)
                try:
                    job = self._queue.get_nowait()
                except queue.Empty:
                    break
            if jobs:
                self._commit(connection, compressor, jobs)
        connection.close()

    def _commit(
        self, connection: sqlite3.Connection, compressor: Compressor, jobs: Sequence[_Group | _Call]
    ) -> None:
        results: list[Any] = []
        stored = 0
        failure: Exception | None = None
        try:
            connection.execute("BEGIN IMMEDIATE")
            for job in jobs:
                if isinstance(job, _Call):
                    results.append(job.run(connection))
                else:
                    results.append(None)
                    for topic, records in job.records.items():
                        stored += append_records(connection, compressor, topic, records)
            connection.execute("COMMIT")
        except Exception as error:
            # Whatever it was (disk full, a fault of the disk, a locked file): nothing of it is durable, all
            # who wait are told, and the next commit starts afresh.
            failure = error
            logger.exception("event log commit failed")
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
        # The loop is gone when the process ends without closing the log.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._committed, jobs, results, stored, failure)

    def _committed(
        self, jobs: Sequence[_Group | _Call], results: Sequence[Any], stored: int, failure: Exception | None
    ) -> None:
        self._failure = None if failure is None else f"the event log cannot be written ({failure})"
        self._stored += stored
        for index, job in enumerate(jobs):
            if isinstance(job, _Group):
                self._unwritten -= job.size
            if failure is not None:
                job.done.set_exception(StorageUnavailable("The event log cannot be written."))
                # Nobody may be waiting any more; the failure is logged above.
                job.done.exception()
            elif isinstance(job, _Group):
                job.done.set_result(None)
                for topic in job.records:
                    if (event := self._appended.get(topic)) is not None:
                        event.set()
            elif not job.done.done():
                job.done.set_result(results[index])


async def open_sqlite_log(path: Path, max_bytes: int) -> SqliteEventLog:
    """Open or make the log at `path`; from `max_bytes` of waiting records on it refuses appends."""
    loop = asyncio.get_running_loop()
    try:
        return await asyncio.to_thread(SqliteEventLog, path, max_bytes, loop)
    except sqlite3.Error as error:
        raise StorageUnavailable(f"The event log at {path} cannot be opened: {error}") from error
