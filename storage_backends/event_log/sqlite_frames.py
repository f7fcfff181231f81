"""The file of the embedded event log: how it is opened, and frames: the records of one topic in one commit, compressed
into one row."""

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


def new_compressor() -> Compressor:
    """For one thread, used again and again: making one costs as much as compressing 20 KB."""
    return Compressor(options=_COMPRESSION)


def append_records(
    connection: sqlite3.Connection,
    compressor: Compressor,
    topic: str,
    records: Sequence[tuple[bytes, bytes, bytes]],
) -> int:
    """Write records (key, meta, value) as frames of bounded size; gives the bytes stored. In a transaction."""
    row = connection.execute("SELECT next_offset FROM topics WHERE topic = ?", (topic,)).fetchone()
    offset: int = row[0] if row else 0
    stored = 0
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
        "INSERT INTO topics (topic, next_offset) VALUES (?, ?) "
        "ON CONFLICT (topic) DO UPDATE SET next_offset = excluded.next_offset",
        (topic, offset),
    )
    return stored


def read_frame(first: int, payload: bytes) -> list[LogRecord]:
    """The records of a frame whose first one has the offset `first`."""
    frame = _frame_decoder.decode(zstd.decompress(payload))
    return [LogRecord(first + index, *record) for index, record in enumerate(frame)]
