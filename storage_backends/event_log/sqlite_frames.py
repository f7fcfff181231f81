"""Opens the file of the embedded event log, and reads and writes its frames. A frame is one compressed row with the
records of one topic in one commit."""

import secrets
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from pipeline_contracts.records import LogRecord

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Compressor = zstd.ZstdCompressor

_SCHEMA = Path(__file__).with_name("schema.sql").read_text()

# Compressing 256 KiB at a time takes 20 % less CPU time than 512 KiB, and the result is 2 % larger.
_FRAME_BYTES = 256 * 1024
# This is level 1 with a hash table that fits into the L1 cache: it takes 20 % less CPU time than plain level 1, and the
# size is the same.
_COMPRESSION: dict[int, int] = {
    zstd.CompressionParameter.compression_level: 1,
    zstd.CompressionParameter.hash_log: 12,
}

_encode_frame = msgspec.msgpack.Encoder().encode
_frame_decoder = msgspec.msgpack.Decoder(list[tuple[bytes, bytes, bytes]])


def connect(path: Path) -> sqlite3.Connection:
    """Open the log's file with the settings that its durability depends on."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=10.0, check_same_thread=False)
    try:
        # This applies only to new files. Larger pages suit blobs of some kilobytes.
        connection.execute("PRAGMA page_size=16384")
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("PRAGMA journal_mode=WAL")
        # With FULL, each commit fsyncs the write-ahead log: a 202 response promises durability.
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA journal_size_limit=67108864")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def prepare_file(connection: sqlite3.Connection) -> str:
    """Create missing tables and columns, set `topics.stored_bytes` to the size of the frames, and return the log's ID.

    Writes nothing to a complete file: a log on a full disk can still be opened and read.
    """
    connection.executescript(_SCHEMA)
    connection.execute("BEGIN IMMEDIATE")
    if "stored_bytes" not in [row[1] for row in connection.execute("PRAGMA table_info(topics)")]:
        connection.execute("ALTER TABLE topics ADD COLUMN stored_bytes INTEGER NOT NULL DEFAULT 0")
    recount_topics(connection)
    row = connection.execute("SELECT log_id FROM log_identity").fetchone()
    if row is None:
        row = (secrets.token_hex(6),)
        connection.execute("INSERT INTO log_identity VALUES (?)", row)
    connection.execute("COMMIT")
    return str(row[0])


def recount_topics(connection: sqlite3.Connection) -> None:
    """Correct `topics.stored_bytes` where it differs from the size of the frames. Call this in a transaction."""
    connection.execute(
        "UPDATE topics SET stored_bytes = held FROM (SELECT topics.topic AS name, coalesce(sum(size), 0) AS held "
        "FROM topics LEFT JOIN frames ON frames.topic = topics.topic GROUP BY 1) "
        "WHERE topic = name AND stored_bytes <> held"
    )


def stored_bytes(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the bytes of the frames' payloads in the file, by topic."""
    return dict(connection.execute("SELECT topic, stored_bytes FROM topics").fetchall())


def new_compressor() -> Compressor:
    """Return a compressor to reuse in one thread: creating one costs as much as compressing 20 KB."""
    return Compressor(options=_COMPRESSION)


def append_records(
    connection: sqlite3.Connection,
    compressor: Compressor,
    topic: str,
    records: Sequence[tuple[bytes, bytes, bytes]],
) -> int:
    """Write records (key, meta, value) as frames of limited size. Return the bytes that were added to the topic. Call
    this in a transaction."""
    row = connection.execute(
        "SELECT next_offset, stored_bytes FROM topics WHERE topic = ?", (topic,)
    ).fetchone()
    offset: int
    stored: int
    offset, stored = row or (0, 0)
    begin = 0
    while begin < len(records):
        size = 0
        end = begin
        while end < len(records) and (end == begin or size + len(records[end][2]) <= _FRAME_BYTES):
            size += len(records[end][2])
            end += 1
        payload = compressor.compress(_encode_frame(records[begin:end]), Compressor.FLUSH_FRAME)
        connection.execute(
            "INSERT INTO frames (topic, first, past_last, size, payload) VALUES (?, ?, ?, ?, ?)",
            (topic, offset, offset + end - begin, len(payload), payload),
        )
        offset += end - begin
        stored += len(payload)
        begin = end
    connection.execute(
        "INSERT INTO topics (topic, next_offset, stored_bytes) VALUES (?, ?, ?) ON CONFLICT (topic) DO UPDATE "
        "SET next_offset = excluded.next_offset, stored_bytes = excluded.stored_bytes",
        (topic, offset, stored),
    )
    return stored


def remove_frames(connection: sqlite3.Connection, topic: str, past: int) -> int:
    """Remove the frames of a topic that end at offset `past` or before. Return the number of removed records. Call this
    in a transaction."""
    removed = connection.execute(
        "DELETE FROM frames WHERE topic = ? AND past_last <= ? RETURNING size, past_last - first",
        (topic, past),
    ).fetchall()
    if removed:
        connection.execute(
            "UPDATE topics SET stored_bytes = stored_bytes - ? WHERE topic = ?",
            (sum(size for size, _ in removed), topic),
        )
    return sum(records for _, records in removed)


def trim_topic(connection: sqlite3.Connection, topic: str, max_bytes: int) -> int:
    """Remove the oldest frames of the topic until it has at most `max_bytes`, or only its newest frame. Return the
    number of removed records. Call this in a transaction."""
    excess = stored_bytes(connection).get(topic, 0) - max_bytes
    if excess <= 0:
        return 0
    past = 0
    # The newest frame stays, whatever its size.
    frames = connection.execute(
        "SELECT past_last, size FROM frames WHERE topic = ? AND past_last < (SELECT next_offset FROM topics WHERE "
        "topic = ?) ORDER BY past_last",
        (topic, topic),
    )
    for past_last, size in frames:
        past = past_last
        excess -= size
        if excess <= 0:
            break
    frames.close()
    return remove_frames(connection, topic, past)


def read_frame(first: int, payload: bytes) -> list[LogRecord]:
    """Return the records of a frame whose first record has the offset `first`."""
    frame = _frame_decoder.decode(zstd.decompress(payload))
    return [LogRecord(first + index, *record) for index, record in enumerate(frame)]
