"""Makes the rows of `telemetry_events` from the body of one ingest request."""

from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from pipeline_contracts.records import BatchMeta
from pipeline_contracts.telemetry import TelemetryEvent
from pipeline_contracts.times import EARLIEST, MAX_AHEAD, format_epoch_ms, from_epoch_ms


class TelemetryRow(TelemetryEvent, gc=False, omit_defaults=True):
    """An event with the metadata from the edge, in the column names of the table.

    Members that the consumer adds accept any JSON, because a client may send a member of the same name. Each of them
    is overwritten. The decoder skips all unknown members that a client sends.
    """

    # The edge has checked that these members are objects or null.
    attributes: Raw | UnsetType = UNSET  # type: ignore[assignment]
    payload: Raw | UnsetType = UNSET  # type: ignore[assignment]
    account_id: Any = msgspec.field(default=None)
    """Also contains the other columns that all rows of the batch share."""
    position: Any = msgspec.field(default=None)


class _Shared(msgspec.Struct, gc=False):
    """The columns that all rows of a batch share."""

    account_id: str
    project_id: str
    environment_id: str
    receipt_id: str
    batch_id: str
    received_at: str
    log: str
    log_offset: int


class _RowBatch(msgspec.Struct, gc=False):
    events: list[TelemetryRow]


_decode = msgspec.json.Decoder(_RowBatch).decode
_encode = msgspec.json.Encoder().encode
_encode_lines = msgspec.json.Encoder().encode_lines
_BEGIN = b'{"account_id":'


@dataclass(frozen=True, slots=True)
class TelemetryRows:
    """The rows of a batch as JSON lines, the number of rows, and the number of rows whose time was replaced by the
    time of receipt."""

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
    shared = _shared_columns(meta, receipt, log, offset)
    latest = received + MAX_AHEAD
    clamped = 0
    for position, row in enumerate(events):
        row.account_id = shared
        row.position = position
        time = row.timestamp
        if time is None:
            row.timestamp = received
        elif not EARLIEST <= time <= latest:
            row.timestamp = received
            clamped += 1
    return TelemetryRows(_encode_lines(events), len(events), clamped)


def _shared_columns(meta: BatchMeta, receipt: str, log: str, offset: int) -> Raw:
    """Return the shared columns as JSON: the value of `account_id`, followed by the other members. If a row has this
    JSON as its `account_id`, encoding the row copies all of these columns."""
    columns = _Shared(
        meta.account_id,
        meta.project_id,
        meta.environment_id,
        receipt,
        meta.batch_id,
        format_epoch_ms(meta.received_ms),
        log,
        offset,
    )
    return Raw(_encode(columns)[len(_BEGIN) : -1])
