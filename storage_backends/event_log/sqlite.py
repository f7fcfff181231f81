"""The event log in one SQLite file. It commits records in groups, each with an fsync, has one partition per topic, and
is limited in size.

While the writer thread commits one group, appends are collected for the next. So a commit has all records that arrived
during the last fsync. No request waits for a timer, and under load a commit costs a fraction of a request. A frame (the
records of one topic in one commit) is one compressed row.
"""

import asyncio
import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipeline_contracts.errors import LogFull, StorageUnavailable
from pipeline_contracts.records import LogRecord
from pipeline_contracts.topics import is_dead_letter_topic
from storage_backends.event_log.sqlite_frames import connect, prepare_file, read_frame, stored_bytes
from storage_backends.event_log.sqlite_writer import (
    Appends,
    Bounds,
    Call,
    Commit,
    SqliteWriter,
    is_disk_low,
)

logger = logging.getLogger(__name__)

# Log at most once in this time: a flood of dead letters must not fill the disk with log lines.
_LOG_INTERVAL_SECONDS = 60.0


class _SharedFuture(asyncio.Future[None]):
    """A future that all appends of a group await. If one request gives up, the future must not be cancelled for the
    others."""

    def cancel(self, msg: Any | None = None) -> bool:
        return False


class SqliteEventLog:
    """An `EventLog` in a SQLite file, with a writer thread and a connection for readers. Made by `open_sqlite_log`."""

    def __init__(self, path: Path, bounds: Bounds, loop: asyncio.AbstractEventLoop) -> None:
        self._bounds = bounds
        self._loop = loop
        self._open_group: Appends | None = None
        self._unwritten = 0
        self._failure: str | None = None
        self._closing = False
        self._appended: dict[str, asyncio.Event] = {}
        self.dead_letters_removed = 0
        """Number of dead letters that were removed since the start, to free space for newer ones."""
        self._removal_logged = -_LOG_INTERVAL_SECONDS
        connection = connect(path)
        self.log_id = prepare_file(connection)
        self._stored_by_topic: dict[str, int] = {}
        self._stored = self._dead_letter_bytes = 0
        self._update_stored(stored_bytes(connection))
        self._reader = connect(path)
        self._reader_lock = threading.Lock()
        self._limit_appends(is_disk_low(path, bounds))
        self._writer = SqliteWriter(connection, path, bounds, self._apply_commit_soon)

    # Methods for the edge.

    def append(self, topic: str, key: bytes, meta: bytes, value: bytes) -> "asyncio.Future[None]":
        if self._closing:
            raise StorageUnavailable("The event log is closing.")
        if self._stored + self._unwritten > self._append_limit and not is_dead_letter_topic(topic):
            # Dead letters have a limit of their own: if the log is full, its consumers must still be able to move
            # records that block them to the dead letters.
            raise LogFull("The event log is full; the consumers are behind, or the disk is short of space.")
        group = self._open_group
        if group is None:
            group = self._open_group = Appends(_SharedFuture(loop=self._loop))
            # Submit the group at the end of this iteration of the event loop, so that all requests that are ready join
            # it.
            self._loop.call_soon(self._submit_group)
        records = group.records.get(topic)
        if records is None:
            records = group.records[topic] = []
        records.append((key, meta, value))
        size = len(value) + len(meta) + 64
        group.size += size
        self._unwritten += size
        return group.done  # type: ignore[no-any-return]

    def stalled_reason(self) -> str | None:
        if self._closing:
            return "the event log is closing"
        if self._failure is not None:
            return self._failure
        if self._append_limit < 0:
            return f"the disk of the event log has less than {self._bounds.min_free_bytes >> 20} MiB free"
        if self._stored + self._unwritten > self._append_limit:
            return "the event log is full"
        return None

    def _limit_appends(self, is_short: bool) -> None:
        # A negative limit refuses all appends. Each append then needs only one comparison.
        self._append_limit = -1 if is_short else self._bounds.max_bytes

    def stored_bytes(self) -> int:
        """Return the bytes of the compressed records in the file that wait for a consumer."""
        return self._stored

    def dead_letter_bytes(self) -> int:
        """Return the bytes of the compressed dead letters in the file."""
        return self._dead_letter_bytes

    async def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._submit_group()
        self._writer.jobs.put(None)
        await asyncio.to_thread(self._writer.join)
        with self._reader_lock:
            self._reader.close()

    def _submit_group(self) -> None:
        group = self._open_group
        if group is not None:
            self._open_group = None
            self._writer.jobs.put(group)

    # Methods for the consumers.

    async def read_frames(self, topic: str, start: int, max_bytes: int) -> list[LogRecord]:
        """Return records of `topic` from offset `start` on: whole frames, until their values have at least
        `max_bytes`."""
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
        """Run a function in a transaction of the writer thread, and return its result. Its changes are then durable."""
        if self._closing:
            raise StorageUnavailable("The event log is closing.")
        done: asyncio.Future[Any] = self._loop.create_future()
        self._writer.jobs.put(Call(run, done))
        return await done

    def appended_event(self, topic: str) -> asyncio.Event:
        """Return an event that is set by each commit with records of the topic."""
        return self._appended.setdefault(topic, asyncio.Event())

    # Methods that the writer thread calls.

    def _apply_commit_soon(self, commit: Commit) -> None:
        self._loop.call_soon_threadsafe(self._apply_commit, commit)

    def _apply_commit(self, commit: Commit) -> None:
        if commit.failure is not None:
            self._failure = f"the event log cannot be written ({commit.failure})"
        elif commit.proves_writable:
            self._failure = None
            if commit.trimmed:
                self._log_removed(commit.trimmed)
        self._limit_appends(commit.is_short)
        self._update_stored(commit.stored)
        self._unwritten -= sum(job.size for job in commit.jobs if isinstance(job, Appends))
        for index, job in enumerate(commit.jobs):
            if job.done.done():
                # This call was cancelled. The other calls must still get their results.
                continue
            if commit.failure is not None:
                job.done.set_exception(StorageUnavailable("The event log cannot be written."))
                # This marks the exception as retrieved. No task may wait for it any more, and the writer has logged the
                # failure.
                job.done.exception()
            elif isinstance(job, Appends):
                job.done.set_result(None)
                for topic in job.records:
                    if (event := self._appended.get(topic)) is not None:
                        event.set()
            else:
                job.done.set_result(commit.results[index])

    def _log_removed(self, removed: int) -> None:
        self.dead_letters_removed += removed
        if time.monotonic() - self._removal_logged >= _LOG_INTERVAL_SECONDS:
            self._removal_logged = time.monotonic()
            logger.warning(
                "dead letters: the oldest %d were removed, because a topic holds over %d MiB of them "
                "(PHAROS_DEAD_LETTER_BYTES). `pharos dead-letters list` shows why records cannot be stored",
                removed,
                self._bounds.dead_letter_bytes >> 20,
            )

    def _update_stored(self, stored: dict[str, int]) -> None:
        for topic, size in stored.items():
            change = size - self._stored_by_topic.get(topic, 0)
            self._stored_by_topic[topic] = size
            if is_dead_letter_topic(topic):
                self._dead_letter_bytes += change
            else:
                self._stored += change


async def open_sqlite_log(path: Path, bounds: Bounds | int) -> SqliteEventLog:
    """Open or create the log at `path`. `bounds`: the limits, or only a number for `max_bytes`. Raises
    `StorageUnavailable`."""
    if isinstance(bounds, int):
        bounds = Bounds(bounds)
    loop = asyncio.get_running_loop()
    opening = asyncio.create_task(asyncio.to_thread(SqliteEventLog, path, bounds, loop))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        # The opening thread keeps running. Close the log that it opens, because that log has a writer thread.
        await asyncio.wait({opening})
        if opening.exception() is None:
            await opening.result().close()
        raise
    except sqlite3.Error as error:
        raise StorageUnavailable(f"The event log at {path} cannot be opened: {error}") from error
