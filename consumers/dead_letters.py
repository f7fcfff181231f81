"""Stores dead letters: records that can never be stored as rows. A topic of their own keeps them, with
the reason and the origin."""

import time

import msgspec

from consumers.chunk import Chunk, DeadRecord
from pipeline_contracts.topics import dead_letter_topic
from storage_backends.event_log.interface import EventLog


class DeadLetter(msgspec.Struct, array_like=True, frozen=True):
    """The meta of a record in a dead-letter topic. The record has the key and the value of the original
    record."""

    log: str
    offset: int
    reason: str
    meta: bytes
    died_ms: int


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(DeadLetter)


async def append_dead_letter(log: EventLog, topic: str, chunk: Chunk, dead: DeadRecord) -> None:
    """Append the record to the topic's dead letters, durably. Raises `StorageUnavailable`.

    After a crash before the commit of the chunk, the record is appended again. Readers recognise copies
    by `(log, offset)`.
    """
    letter = DeadLetter(
        chunk.log, dead.record.offset, dead.reason[:2000], dead.record.meta, time.time_ns() // 10**6
    )
    await log.append(dead_letter_topic(topic), dead.record.key, _encode(letter), dead.record.value)


def decode_dead_letter(meta: bytes) -> DeadLetter:
    """Decode the meta of a record in a dead-letter topic. Raises `msgspec.DecodeError`."""
    return _decoder.decode(meta)
