"""What travels through the event log, and where it lies there."""

from dataclasses import dataclass

import msgspec


class BatchMeta(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Who sent a record and when: travels beside the body in the record's header, as a MessagePack array.

    Fields are only ever added at the end, with a default, so that old records stay readable.
    """

    account_id: str
    project_id: str
    environment_id: str
    received_ms: int
    """Time of receipt at the edge, milliseconds since 1970, UTC."""
    events: int
    batch_id: str


_encode_meta = msgspec.msgpack.Encoder().encode
_meta_decoder = msgspec.msgpack.Decoder(BatchMeta)


def encode_meta(meta: BatchMeta) -> bytes:
    """The header's bytes."""
    return _encode_meta(meta)


def decode_meta(data: bytes) -> BatchMeta:
    """The header's content. Raises `msgspec.DecodeError` or `msgspec.ValidationError` for foreign bytes."""
    return _meta_decoder.decode(data)


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record as a consumer reads it."""

    offset: int
    key: bytes
    meta: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class Position:
    """Where a consumer group stands in one partition.

    `plan_end` is the end (exclusive) of the chunk that it had begun to insert when this was written: the next
    owner carries out exactly `[next_offset, plan_end)` first. None: no insert was under way.
    """

    next_offset: int
    plan_end: int | None = None
