"""Makes the rows of `telemetry_events` from the body of one ingest request."""

from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from pipeline_contracts.records import BatchMeta
from pipeline_contracts.telemetry import TelemetryEvent
from pipeline_contracts.times import AHEAD, EARLIEST, format_time, from_epoch_ms


class TelemetryRow(TelemetryEvent, gc=False, omit_defaults=True):
    """An event with the metadata from the edge, in the column names of the table.

    The added members accept any JSON, because a client may send a member of the same name; each is overwritten.
    """

    # The edge has checked that these are objects or null.
    attributes: Raw | UnsetType = UNSET  # type: ignore[assignment]
    payload: Raw | UnsetType = UNSET  # type: ignore[assignment]
    account_id: Any = msgspec.field(default=None)
    project_id: Any = msgspec.field(default=None)
    environment_id: Any = msgspec.field(default=None)
    receipt_id: Any = msgspec.field(default=None)
    batch_id: Any = msgspec.field(default=None)
    position: Any = msgspec.field(default=None)
    received_at: Any = msgspec.field(default=None)
    log: Any = msgspec.field(default=None)
    log_offset: Any = msgspec.field(default=None)


class _RowBatch(msgspec.Struct, gc=False):
    events: list[TelemetryRow]


_decode = msgspec.json.Decoder(_RowBatch).decode
_encode_lines = msgspec.json.Encoder().encode_lines


@dataclass(frozen=True, slots=True)
class TelemetryRows:
    """JSON lines, their number, and the number of rows whose time was clamped."""

    lines: bytes
    rows: int
    clamped: int


def telemetry_rows(body: bytes, meta: BatchMeta, receipt: str, log: str, offset: int) -> TelemetryRows:
    """Return the rows of one batch.

    `log` and `offset` identify the record. A time over 24 h after the receipt, or before 1900, becomes the time of
    receipt. Raises `msgspec.DecodeError` for a body that no edge accepts.
    """
    events = _decode(body).events
    received = from_epoch_ms(meta.received_ms)
    received_at = format_time(received)
    latest = received + AHEAD
    clamped = 0
    for position, row in enumerate(events):
        row.account_id = meta.account_id
        row.project_id = meta.project_id
        row.environment_id = meta.environment_id
        row.receipt_id = receipt
        row.batch_id = meta.batch_id
        row.position = position
        row.received_at = received_at
        row.log = log
        row.log_offset = offset
        time = row.timestamp
        if time is None:
            row.timestamp = received
        elif time > latest or time < EARLIEST:
            row.timestamp = received
            clamped += 1
    return TelemetryRows(_encode_lines(events), len(events), clamped)
