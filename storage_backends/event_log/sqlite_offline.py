"""Reads and moves records in the embedded log's file from another process than the one that serves the log. SQLite's
locks isolate the processes."""

import contextlib
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.records import LogRecord
from storage_backends.event_log.sqlite_frames import (
    append_records,
    connect,
    new_compressor,
    prepare_file,
    read_frame,
    recount_topics,
)

_FRAMES = "SELECT id, first, payload FROM frames WHERE topic = ? ORDER BY past_last"


def read_topic(path: Path, topic: str) -> list[LogRecord]:
    """Return all records of a topic. Raises `StorageUnavailable`."""
    try:
        with contextlib.closing(connect(path)) as connection:
            rows = connection.execute(_FRAMES, (topic,)).fetchall()
    except sqlite3.Error as error:
        raise StorageUnavailable(f"{path} cannot be read: {error}") from error
    return [record for _, first, payload in rows for record in read_frame(first, payload)]


def count_records(path: Path, topics: Sequence[str]) -> int:
    """Return how many records these topics have together. Raises `StorageUnavailable`."""
    names = ", ".join("?" * len(topics))
    query = f"SELECT coalesce(sum(past_last - first), 0) FROM frames WHERE topic IN ({names})"
    try:
        with contextlib.closing(connect(path)) as connection:
            return int(connection.execute(query, tuple(topics)).fetchone()[0])
    except sqlite3.Error as error:
        raise StorageUnavailable(f"{path} cannot be read: {error}") from error


def requeue_records(
    path: Path,
    source: str,
    target: str,
    read_origin: Callable[[bytes], tuple[tuple[str, int], bytes]],
    selected: set[tuple[str, int]],
) -> int:
    """Move records from `source` to the end of `target` in one transaction; return the number of added records.

    `read_origin`: returns, for the meta of a record in `source`, the identity and the meta of the original record.
    `selected`: the identities of the originals to move. All their copies are removed from `source`, and each
    original is added to `target` once. Raises `StorageUnavailable`.
    """
    selected_records: dict[tuple[str, int], tuple[bytes, bytes, bytes]] = {}
    compressor = new_compressor()
    try:
        with contextlib.closing(connect(path)) as connection:
            prepare_file(connection)
            connection.execute("BEGIN IMMEDIATE")
            for frame, first, payload in connection.execute(_FRAMES, (source,)).fetchall():
                remaining = []
                for record in read_frame(first, payload):
                    identity, meta = read_origin(record.meta)
                    if identity in selected:
                        selected_records.setdefault(identity, (record.key, meta, record.value))
                    else:
                        remaining.append((record.key, record.meta, record.value))
                if len(remaining) < len(read_frame(first, payload)):
                    connection.execute("DELETE FROM frames WHERE id = ?", (frame,))
                    if remaining:
                        append_records(connection, compressor, source, remaining)
            if selected_records:
                append_records(connection, compressor, target, list(selected_records.values()))
            recount_topics(connection)
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise StorageUnavailable(f"{path} cannot be written: {error}") from error
    return len(selected_records)
