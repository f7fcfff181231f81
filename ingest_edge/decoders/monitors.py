"""Decode signals of heartbeats, snapshots of queues and updates of workers."""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Struct

from ingest_edge.decoders.member_faults import make_fault_lister
from pipeline_contracts.errors import FieldError, InvalidInput
from pipeline_contracts.json_members import NotAnObject
from pipeline_contracts.monitors import HeartbeatSignal, QueueSnapshot, WorkerUpdate

_COUNT = "must be a whole number, 0 or more"
_UUID = "must be a UUID"
_OBSERVED = "must be an RFC 3339 date-time in UTC that ends in Z, like 2026-01-31T12:00:00.000Z"
_EXPECTED: Final = {
    "run_id": _UUID,
    "signal": "must be one of start, success, failure",
    "snapshot_id": _UUID,
    "observed_at": _OBSERVED,
    "pending": _COUNT,
    "delayed": _COUNT,
    "reserved": _COUNT,
    "failed": _COUNT,
    "oldest_wait_seconds": _COUNT,
    "worker_id": _UUID,
    "sequence": "must be a whole number, 1 or more",
    "status": "must be one of idle, busy, stopped",
    "job_id": _UUID,
}


class _ObservedAt(Struct, gc=False):
    """The time as text, because a parsed time does not distinguish Z from +00:00."""

    observed_at: str


def _decoder(type_: type[Struct]) -> Callable[[bytes], Any]:
    decode = msgspec.json.Decoder(type_).decode
    list_faults = make_fault_lister(type_, _EXPECTED)

    def faults(body: bytes) -> list[FieldError]:
        try:
            return list_faults(body, "")
        except NotAnObject as error:
            return [FieldError("", str(error))]

    def decode_or_refuse(body: bytes) -> Any:
        try:
            return decode(body)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise _refused(faults(body) or [FieldError("", str(error))]) from error

    return decode_or_refuse


decode_heartbeat: Callable[[bytes], HeartbeatSignal] = _decoder(HeartbeatSignal)
"""This and the functions below raise `InvalidInput` that lists the invalid fields."""

_decode_snapshot: Callable[[bytes], QueueSnapshot] = _decoder(QueueSnapshot)
_decode_observed = msgspec.json.Decoder(_ObservedAt).decode
_decode_worker: Callable[[bytes], WorkerUpdate] = _decoder(WorkerUpdate)


def decode_snapshot(body: bytes) -> QueueSnapshot:
    """Decode a queue's snapshot."""
    snapshot = _decode_snapshot(body)
    if not _decode_observed(body).observed_at.endswith(("Z", "z")):
        raise _refused([FieldError("observed_at", _OBSERVED)])
    return snapshot


def decode_worker(body: bytes) -> WorkerUpdate:
    """Decode a worker's update."""
    update = _decode_worker(body)
    if update.status == "busy" and update.job_id is None:
        raise _refused([FieldError("job_id", "is required while the worker is busy")])
    return update


def _refused(errors: list[FieldError]) -> InvalidInput:
    return InvalidInput("Nothing was stored. Fix the fields listed below and send it again.", errors=errors)
