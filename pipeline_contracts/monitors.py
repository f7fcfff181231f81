"""The wire format of what monitors are told: heartbeats' signals, queues' snapshots and workers' updates.

Decoding into these structs is the validation, at the edge; the consumer reads the same bytes into the same fields.
"""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

Signal = Literal["start", "success", "failure"]
WorkerStatus = Literal["idle", "busy", "stopped"]
# What a signed 64-bit column holds.
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Sequence = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Moment = Annotated[datetime, Meta(tz=True)]


class HeartbeatSignal(Struct, gc=False):
    """The body of `POST /v1/heartbeats/{heartbeat}`."""

    run_id: UUID
    signal: Signal


class Ping(Struct, gc=False):
    """Record that the edge writes for a request to a ping URL."""

    ping_id: UUID
    """Made by the edge. It is the run's ID where the ping names no run and begins one."""
    signal: Signal
    run_id: UUID | None = None
    """`rid`, if the caller has given it."""
    exit_status: int | None = None
    output: str | None = None


class QueueSnapshot(Struct, gc=False):
    """The body of `POST /v1/queues/{queue}/snapshots`. `observed_at` ends in Z."""

    snapshot_id: UUID
    observed_at: Moment
    pending: Count
    delayed: Count | None = None
    reserved: Count | None = None
    failed: Count | None = None
    oldest_wait_seconds: Count | None = None


class WorkerUpdate(Struct, gc=False):
    """The body of `POST /v1/queues/{queue}/workers`. `job_id` is there whenever the worker is busy."""

    worker_id: UUID
    sequence: Sequence
    status: WorkerStatus
    job_id: UUID | None = None


class MonitorMeta(Struct, array_like=True, frozen=True, gc=False):
    """Which monitor a record is of and when it came: travels in the record's header, as a MessagePack array.

    Fields are only ever added at the end, with a default, so that old records stay readable.
    """

    kind: Literal["heartbeat", "snapshot", "worker", "ping"]
    monitor: int
    """The ID of the heartbeat or of the queue."""
    environment_id: str
    received_ms: int
    """Time of receipt at the edge, milliseconds since 1970, UTC."""


encode_monitor_meta = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(MonitorMeta)


def decode_monitor_meta(data: bytes) -> MonitorMeta:
    """The header's content. Raises `msgspec.DecodeError` (a `ValidationError` among it) for foreign bytes."""
    return _decoder.decode(data)
