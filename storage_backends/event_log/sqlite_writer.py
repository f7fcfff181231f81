"""The writer thread of the embedded event log: it puts all waiting jobs into one commit."""

import contextlib
import logging
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline_contracts.topics import is_dead_letter_topic
from storage_backends.event_log.sqlite_frames import (
    Compressor,
    append_records,
    new_compressor,
    stored_bytes,
    trim_topic,
)

logger = logging.getLogger(__name__)

# After a failed commit, the writer tries an empty write at this interval, so that the log becomes ready again without
# an append.
_PROBE_SECONDS = 1.0
# So short that less than `min_free_bytes` can be written between two checks of the free space.
_DISK_CHECK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits for the disk space that the log uses."""

    max_bytes: int
    """If more bytes of records than this wait, appends are refused."""
    dead_letter_bytes: int = 64 * 2**20
    """Maximum bytes of dead letters of each topic, in addition to `max_bytes`. The oldest are removed."""
    min_free_bytes: int = 128 * 2**20
    """If the disk has less free space than this, appends are refused: the consumers need the space to empty the
    log."""


def is_disk_low(path: Path, bounds: Bounds) -> bool:
    """Return True if the disk with this file has less free space than `bounds.min_free_bytes`."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < bounds.min_free_bytes


@dataclass(slots=True)
class Appends:
    """Records that will be committed together, by topic. A record is (key, meta, value)."""

    done: Any
    """The future that all appends of the group await."""
    records: dict[str, list[tuple[bytes, bytes, bytes]]] = field(default_factory=dict)
    size: int = 0


@dataclass(slots=True)
class Call:
    """A function that runs in a transaction on the writer's connection, and the future for its result."""

    run: Callable[[sqlite3.Connection], Any]
    done: Any


@dataclass(slots=True)
class Commit:
    """The outcome of one commit: either all of its jobs are durable, or none is."""

    jobs: Sequence[Appends | Call]
    results: list[Any]
    stored: dict[str, int] = field(default_factory=dict)
    """The number of bytes of each topic whose size may have changed. Empty if the file cannot be read."""
    trimmed: int = 0
    """Number of dead letters that were removed to free space for newer ones."""
    failure: Exception | None = None
    proves_writable: bool = True
    """False if the commit wrote nothing: an empty commit also succeeds on a full disk."""
    is_short: bool = False
    """True if the disk has less free space than `Bounds.min_free_bytes`."""


class SqliteWriter:
    """Commits the jobs that are put into `jobs`; None ends the thread. Calls `report` in the writer thread after each
    commit."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        bounds: Bounds,
        report: Callable[[Commit], None],
    ) -> None:
        self.jobs: queue.SimpleQueue[Appends | Call | None] = queue.SimpleQueue()
        self._connection = connection
        self._path = path
        self._bounds = bounds
        self._report = report
        self._failing = False
        self._is_short = False
        self._next_disk_check = 0.0
        self._thread = threading.Thread(target=self._write, name="event-log-writer", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait until all jobs before the None are committed. Blocking."""
        self._thread.join()

    def _write(self) -> None:
        is_closing = False
        compressor = new_compressor()
        while not is_closing:
            jobs: list[Appends | Call] = []
            try:
                job = self.jobs.get(timeout=_PROBE_SECONDS if self._failing else None)
                while True:
                    if job is None:
                        is_closing = True
                    else:
                        jobs.append(job)
                    job = self.jobs.get_nowait()
            except queue.Empty:
                pass
            if jobs or not is_closing:
                self._commit(compressor, jobs)
        self._connection.close()

    def _commit(self, compressor: Compressor, jobs: Sequence[Appends | Call]) -> None:
        commit = Commit(jobs, [])
        before = self._connection.total_changes
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            if not jobs:
                self._connection.execute("UPDATE log_identity SET log_id = log_id")
            for job in jobs:
                commit.results.append(self._run(job, compressor, commit))
            self._connection.execute("COMMIT")
        except Exception as error:
            # The cause may be anything, such as a full disk, a disk fault or a locked file. No job is durable, all
            # waiting tasks get the error, and the next commit starts from the last successful one.
            commit.failure = error
            if jobs or not self._failing:
                logger.exception("event log commit failed")
            # SQLite may have rolled back the transaction already.
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
        commit.proves_writable = commit.failure is None and self._connection.total_changes > before
        self._failing = commit.failure is not None or (self._failing and not commit.proves_writable)
        self._check_disk(commit)
        if commit.failure is not None or any(isinstance(job, Call) for job in jobs):
            # The effect of a function on sizes is unknown here, and a rollback undoes the sizes counted above.
            with contextlib.suppress(sqlite3.Error):
                commit.stored = stored_bytes(self._connection)
        # The event loop is closed if the process ends without closing the log.
        with contextlib.suppress(RuntimeError):
            self._report(commit)

    def _run(self, job: Appends | Call, compressor: Compressor, commit: Commit) -> Any:
        if isinstance(job, Call):
            return job.run(self._connection)
        for topic, records in job.records.items():
            commit.stored[topic] = append_records(self._connection, compressor, topic, records)
            if is_dead_letter_topic(topic):
                commit.trimmed += trim_topic(self._connection, topic, self._bounds.dead_letter_bytes)
                commit.stored |= stored_bytes(self._connection)
        return None

    def _check_disk(self, commit: Commit) -> None:
        now = time.monotonic()
        if commit.failure is not None or self._failing or now >= self._next_disk_check:
            self._is_short = is_disk_low(self._path, self._bounds)
            self._next_disk_check = now + _DISK_CHECK_SECONDS
        commit.is_short = self._is_short
        self._failing = self._failing or self._is_short
