"""The thread that writes the embedded event log: everything that waits goes into one commit."""

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

# After a failed commit: seconds between attempts to write, so that readiness returns although nobody appends.
_PROBE_SECONDS = 1.0
# The disk's room is asked for this often: what can be written meanwhile is less than what stays free.
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the log may take of the disk."""

    max_bytes: int
    """Waiting records from which on appends are refused."""
    dead_letter_bytes: int = 64 * 2**20
    """Dead letters that each topic keeps, beside `max_bytes`; the oldest leave."""
    min_free_bytes: int = 128 * 2**20
    """Free room on the disk below which appends are refused: the consumers need it to empty the log."""


def is_short_of_room(path: Path, bounds: Bounds) -> bool:
    """True if the disk with this file has less room than has to stay free."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < bounds.min_free_bytes


@dataclass(slots=True)
class Appends:
    """Records that will be committed together, by topic: (key, meta, value)."""

    done: Any
    """The future that all who append await."""
    records: dict[str, list[tuple[bytes, bytes, bytes]]] = field(default_factory=dict)
    size: int = 0


@dataclass(slots=True)
class Call:
    """A function to run on the writer's connection inside the transaction, with a future for its result."""

    run: Callable[[sqlite3.Connection], Any]
    done: Any


@dataclass(slots=True)
class Commit:
    """The outcome of one commit: all of its jobs are durable, or none is."""

    jobs: Sequence[Appends | Call]
    results: list[Any]
    stored: dict[str, int] = field(default_factory=dict)
    """Bytes that the file holds now, of each topic that may have changed; none when the file cannot be asked."""
    trimmed: int = 0
    """Dead letters that left to make room for these."""
    failure: Exception | None = None
    proves_writable: bool = True
    """False if nothing had to be written, which succeeds on a full disk too."""
    is_short: bool = False
    """The disk has less room now than has to stay free."""


class SqliteWriter:
    """Commits what is put into `jobs`; None ends it. `report` is called on the writer's thread after each commit."""

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
        self._look_at = 0.0
        self._thread = threading.Thread(target=self._write, name="event-log-writer", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait until all jobs before the None are committed. Blocks."""
        self._thread.join()

    def _write(self) -> None:
        last = False
        compressor = new_compressor()
        while not last:
            jobs: list[Appends | Call] = []
            try:
                job = self.jobs.get(timeout=_PROBE_SECONDS if self._failing else None)
                while True:
                    if job is None:
                        last = True
                    else:
                        jobs.append(job)
                    job = self.jobs.get_nowait()
            except queue.Empty:
                pass
            if jobs or not last:
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
            # Whatever it was (disk full, a fault of the disk, a locked file): nothing of it is durable, all
            # who wait are told, and the next commit starts afresh.
            commit.failure = error
            if jobs or not self._failing:
                logger.exception("event log commit failed")
            # The engine may have rolled back by itself.
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
        commit.proves_writable = commit.failure is None and self._connection.total_changes > before
        self._failing = commit.failure is not None or (self._failing and not commit.proves_writable)
        self._look_at_disk(commit)
        if commit.failure is not None or any(isinstance(job, Call) for job in jobs):
            # What a function did is not known here, and after a rollback nothing is as it seemed.
            with contextlib.suppress(sqlite3.Error):
                commit.stored = stored_bytes(self._connection)
        # The loop is gone when the process ends without closing the log.
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

    def _look_at_disk(self, commit: Commit) -> None:
        now = time.monotonic()
        if commit.failure is not None or self._failing or now >= self._look_at:
            self._is_short = is_short_of_room(self._path, self._bounds)
            self._look_at = now + _LOOK_SECONDS
        commit.is_short = self._is_short
        self._failing = self._failing or self._is_short
