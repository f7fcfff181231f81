"""Work on the log's file from outside of the process that serves it: SQLite keeps the two apart."""

import contextlib
import sqlite3
from collections.abc import Callable
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
    """All records that a topic holds now. Raises `StorageUnavailable`."""
    try:
        with contextlib.closing(connect(path)) as connection:
            rows = connection.execute(_FRAMES, (topic,)).fetchall()
    except sqlite3.Error as error:
        raise StorageUnavailable(f"{path} cannot be read: {error}") from error
    return [record for _, first, payload in rows for record in read_frame(first, payload)]


def requeue(
    path: Path,
    source: str,
    target: str,
    original: Callable[[bytes], tuple[tuple[str, int], bytes]],
    chosen: set[tuple[str, int]],
) -> int:
    """Move records from `source` to the end of `target` in one transaction; gives how many were added.

    `original` tells from a record's meta what it is a copy of, and the meta it had there. Copies of the chosen
    ones are all removed from `source`, and each is added once. Raises `StorageUnavailable`.
    """
    moved: dict[tuple[str, int], tuple[bytes, bytes, bytes]] = {}
    compressor = new_compressor()
    try:
        with contextlib.closing(connect(path)) as connection:
            prepare_file(connection)
            connection.execute("BEGIN IMMEDIATE")
            for frame, first, payload in connection.execute(_FRAMES, (source,)).fetchall():
                kept = []
                for record in read_frame(first, payload):
                    identity, meta = original(record.meta)
                    if identity in chosen:
                        moved.setdefault(identity, (record.key, meta, record.value))
                    else:
                        kept.append((record.key, record.meta, record.value))
                if len(kept) < len(read_frame(first, payload)):
                    connection.execute("DELETE FROM frames WHERE id = ?", (frame,))
                    if kept:
                        append_records(connection, compressor, source, kept)
            if moved:
                append_records(connection, compressor, target, list(moved.values()))
            recount_topics(connection)
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        raise StorageUnavailable(f"{path} cannot be written: {error}") from error
    return len(moved)
