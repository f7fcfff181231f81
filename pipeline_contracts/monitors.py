"""The wire formats of monitors: signals of heartbeats, snapshots of queues and updates of workers.

Decoding into these structs is the validation, at the edge; the consumer reads the same bytes into the same fields.
"""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

Signal = Literal["start", "success", "failure"]
WorkerStatus = Literal["idle", "busy", "stopped"]
# The range of a signed 64-bit column.
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Sequence = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Timestamp = Annotated[datetime, Meta(tz=True)]


class HeartbeatSignal(Struct, gc=False):
    """The body of `POST /v1/heartbeats/{heartbeat}`."""

    run_id: UUID
    signal: Signal


class Ping(Struct, gc=False):
    """The value of a log record: a request to a ping URL."""

    ping_id: UUID
    """Created by the edge. Becomes the run's ID if the ping starts a run without naming it."""
    signal: Signal
    run_id: UUID | None = None
    """The parameter `rid`, if the caller has sent it."""
    exit_status: int | None = None
    output: str | None = None


class QueueSnapshot(Struct, gc=False):
    """The body of `POST /v1/queues/{queue}/snapshots`. `observed_at` ends in Z."""

    snapshot_id: UUID
    observed_at: Timestamp
    pending: Count
    delayed: Count | None = None
    reserved: Count | None = None
    failed: Count | None = None
    oldest_wait_seconds: Count | None = None


class WorkerUpdate(Struct, gc=False):
    """The body of `POST /v1/queues/{queue}/workers`. A busy worker has a `job_id`."""

    worker_id: UUID
    sequence: Sequence
    status: WorkerStatus
    job_id: UUID | None = None


class MonitorMeta(Struct, array_like=True, frozen=True, gc=False):
    """The header of a log record, as a MessagePack array: its monitor and time of receipt.

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
    """Decode the header of a record. Raises `msgspec.DecodeError`, also as its subclass `ValidationError`."""
    return _decoder.decode(data)


INTAKE_MONITOR = 0
"""The monitor ID of records with which an edge reports that it accepts signals. No heartbeat has this ID, so consumers
of an older version ignore the record."""
INTAKE_KEY = b"intake"
"""The key of these records in the log, so that all are in one partition."""
_INTAKE_SIGNAL = msgspec.json.encode(HeartbeatSignal(UUID(int=0), "success"))


def make_intake_record(at_ms: int) -> tuple[bytes, bytes]:
    """Return the header and the value of a record which reports that an edge accepts signals at this time."""
    return encode_monitor_meta(MonitorMeta("heartbeat", INTAKE_MONITOR, "", at_ms)), _INTAKE_SIGNAL
