"""The file of the embedded event log: how it is opened, and frames: the records of one topic in one commit, compressed
into one row."""

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

# A quarter of a megabyte compresses a fifth cheaper than half of one, and 2 % less tightly.
_FRAME_BYTES = 256 * 1024
# Level 1 with a hash table that stays in the first cache: a fifth cheaper than plain level 1, as tight.
_COMPRESSION: dict[int, int] = {
    zstd.CompressionParameter.compression_level: 1,
    zstd.CompressionParameter.hash_log: 12,
}

_encode_frame = msgspec.msgpack.Encoder().encode
_frame_decoder = msgspec.msgpack.Decoder(list[tuple[bytes, bytes, bytes]])


def connect(path: Path) -> sqlite3.Connection:
    """A connection to the log's file with the settings that durability rests on."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=10.0, check_same_thread=False)
    try:
        # New files only; larger pages suit blobs of some kilobytes.
        connection.execute("PRAGMA page_size=16384")
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("PRAGMA journal_mode=WAL")
        # FULL: the write-ahead log is fsynced at each commit. This is what a 202 stands on.
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA journal_size_limit=67108864")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def prepare_file(connection: sqlite3.Connection) -> str:
    """Create what is missing in the file, set `topics.stored_bytes` to what the frames hold, and return the log's ID.

    Writes nothing to a file that is in order: a log on a full disk can still be opened and read.
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
    """Set `topics.stored_bytes` to what the frames hold, where it differs. In a transaction."""
    connection.execute(
        "UPDATE topics SET stored_bytes = held FROM (SELECT topics.topic AS name, coalesce(sum(size), 0) AS held "
        "FROM topics LEFT JOIN frames ON frames.topic = topics.topic GROUP BY 1) "
        "WHERE topic = name AND stored_bytes <> held"
    )


def stored_bytes(connection: sqlite3.Connection) -> dict[str, int]:
    """Bytes of payload that the file holds, by topic."""
    return dict(connection.execute("SELECT topic, stored_bytes FROM topics").fetchall())


def new_compressor() -> Compressor:
    """For one thread, used again and again: making one costs as much as compressing 20 KB."""
    return Compressor(options=_COMPRESSION)


def append_records(
    connection: sqlite3.Connection,
    compressor: Compressor,
    topic: str,
    records: Sequence[tuple[bytes, bytes, bytes]],
) -> int:
    """Write records (key, meta, value) as frames of bounded size; gives the bytes that the topic holds now. In a
    transaction."""
    row = connection.execute(
        "SELECT next_offset, stored_bytes FROM topics WHERE topic = ?", (topic,)
    ).fetchone()
    offset: int
    held: int
    offset, held = row or (0, 0)
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
        held += len(payload)
        begin = end
    connection.execute(
        "INSERT INTO topics (topic, next_offset, stored_bytes) VALUES (?, ?, ?) ON CONFLICT (topic) DO UPDATE "
        "SET next_offset = excluded.next_offset, stored_bytes = excluded.stored_bytes",
        (topic, offset, held),
    )
    return held


def remove_frames(connection: sqlite3.Connection, topic: str, past: int) -> int:
    """Remove the frames of a topic that end at the offset `past` or before; gives the number of their records. In a
    transaction."""
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
    """Remove the oldest frames until the topic holds at most `max_bytes`, or only its newest frame; gives the number of
    records removed. In a transaction."""
    over = stored_bytes(connection).get(topic, 0) - max_bytes
    if over <= 0:
        return 0
    past = 0
    # The newest frame stays, however large it is.
    frames = connection.execute(
        "SELECT past_last, size FROM frames WHERE topic = ? AND past_last < (SELECT next_offset FROM topics WHERE "
        "topic = ?) ORDER BY past_last",
        (topic, topic),
    )
    for past_last, size in frames:
        past = past_last
        over -= size
        if over <= 0:
            break
    frames.close()
    return remove_frames(connection, topic, past)


def read_frame(first: int, payload: bytes) -> list[LogRecord]:
    """The records of a frame whose first one has the offset `first`."""
    frame = _frame_decoder.decode(zstd.decompress(payload))
    return [LogRecord(first + index, *record) for index, record in enumerate(frame)]
