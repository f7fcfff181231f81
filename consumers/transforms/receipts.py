"""Makes receipts. A receipt says from which record of the log a batch was stored, so that a batch that is sent
again is recognised."""

import msgspec

from consumers.chunk import RecordRows
from pipeline_contracts.records import LogRecord
from pipeline_contracts.times import format_epoch_ms

RECEIPTS = "pharos.ingest_receipts"


class _ReceiptRow(msgspec.Struct, gc=False):
    receipt_id: str
    environment_id: str
    batch_id: str
    outcome: str
    received: int
    clamped: int
    received_at: str
    errors: list[str]
    log: str
    log_offset: int


_encode = msgspec.json.Encoder().encode


class BatchIdentity(msgspec.Struct, frozen=True, gc=False):
    """What a receipt says about its batch. `received`: how many events the batch has."""

    name: str
    """The name of the receipt (`pipeline_contracts.identifiers.receipt_name`)."""
    environment_id: str
    batch_id: str
    received: int
    received_ms: int


def receipt_row(
    record: LogRecord,
    batch: BatchIdentity,
    log: str,
    outcome: str,
    *,
    clamped: int = 0,
    errors: list[str] | None = None,
) -> RecordRows:
    """Return the row of `ingest_receipts` for a batch. `outcome`: the batch was stored, was repeated
    (`duplicate`), or has `failed`."""
    row = _ReceiptRow(
        receipt_id=batch.name,
        environment_id=batch.environment_id,
        batch_id=batch.batch_id,
        outcome=outcome,
        received=batch.received,
        clamped=clamped,
        received_at=format_epoch_ms(batch.received_ms),
        errors=errors or [],
        log=log,
        log_offset=record.offset,
    )
    return RecordRows(record.offset, _encode(row) + b"\n", 1)
