"""Puts aside what can never be stored, with the reason and where it came from."""

import time

import msgspec

from consumers.chunk import Chunk, DeadRecord
from pipeline_contracts.topics import dead_letter_topic
from storage_backends.event_log.interface import EventLog


class DeadLetter(msgspec.Struct, array_like=True, frozen=True):
    """Travels as the meta of a record of a dead-letter topic; key and value are the original's."""

    log: str
    offset: int
    reason: str
    meta: bytes
    died_ms: int


_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(DeadLetter)


async def bury(log: EventLog, topic: str, chunk: Chunk, dead: DeadRecord) -> None:
    """Append the record to the topic's dead letters, durably. Raises `StorageUnavailable`.

    A crash before the chunk is committed buries it again: readers tell copies by `(log, offset)`.
    """
    letter = DeadLetter(
        chunk.log, dead.record.offset, dead.reason[:2000], dead.record.meta, time.time_ns() // 10**6
    )
    await log.append(dead_letter_topic(topic), dead.record.key, _encode(letter), dead.record.value)


def read_dead_letter(meta: bytes) -> DeadLetter:
    """The letter in a dead record's meta. Raises `msgspec.DecodeError` for foreign bytes."""
    return _decoder.decode(meta)
