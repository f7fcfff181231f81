"""The transform of telemetry: rows of events, and a receipt for each batch."""

import asyncio
from functools import partial
from operator import attrgetter

import msgspec

from analytics_queries.stored_receipts import stored_receipts
from consumers.chunk import Chunk, ChunkRows, DeadRecord, RecordRows, RowsOnly
from consumers.deep_json import call_with_deeper_stack
from consumers.transforms.telemetry_rows import telemetry_rows
from consumers.transforms.weight import weigh
from pipeline_contracts import topics
from pipeline_contracts.records import BatchMeta, LogRecord, decode_meta
from pipeline_contracts.times import format_epoch_ms
from storage_backends.column_store.interface import ColumnStore

EVENTS = "pharos.telemetry_events"
RECEIPTS = "pharos.ingest_receipts"

# After so many events the transform yields to the event loop: an edge may run in the same process.
_BREATH_EVENTS = 500


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


class TelemetryTopic(RowsOnly):
    """The transform of `topics.TELEMETRY`."""

    topic = topics.TELEMETRY

    def weight(self, record: LogRecord) -> tuple[int, int]:
        return weigh(record, decode_meta, attrgetter("events"))

    async def make_rows(self, chunk: Chunk, store: ColumnStore) -> ChunkRows:
        result = ChunkRows()
        events = result.tables[EVENTS] = []
        receipts = result.tables[RECEIPTS] = []
        readable = _readable(chunk, result)
        names = list({name for _, name, _ in readable})
        stored_from = await stored_receipts(store, names)
        breath = 0
        for record, name, meta in readable:
            # The first record of a batch counts; on a second attempt at the chunk it is this record itself.
            first = stored_from.setdefault(name, (chunk.log, record.offset))
            if first != (chunk.log, record.offset):
                result.duplicates += 1
                receipts.append(_receipt(record, name, meta, chunk.log, "duplicate"))
                continue
            try:
                rows = call_with_deeper_stack(
                    partial(telemetry_rows, record.value, meta, name, chunk.log, record.offset)
                )
            except (msgspec.DecodeError, RecursionError) as error:
                del stored_from[name]
                reason = f"The body cannot be read: {error}"
                result.dead.append(DeadRecord(record, reason))
                receipts.append(_receipt(record, name, meta, chunk.log, "failed", errors=[reason]))
                continue
            events.append(RecordRows(record.offset, rows.lines, rows.rows))
            receipts.append(_receipt(record, name, meta, chunk.log, "stored", clamped=rows.clamped))
            breath += rows.rows
            if breath >= _BREATH_EVENTS:
                breath = 0
                await asyncio.sleep(0)
        return result

    def report_refusal(self, record: LogRecord, reason: str, log: str) -> tuple[str, RecordRows] | None:
        error = f"The column store refused the rows: {reason[:300]}"
        return RECEIPTS, _receipt(
            record, record.key.decode(), decode_meta(record.meta), log, "failed", errors=[error]
        )


def _readable(chunk: Chunk, result: ChunkRows) -> list[tuple[LogRecord, str, BatchMeta]]:
    readable = []
    for record in chunk.records:
        try:
            readable.append((record, record.key.decode(), decode_meta(record.meta)))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            result.dead.append(DeadRecord(record, f"The record's head cannot be read: {error}"))
    return readable


def _receipt(
    record: LogRecord,
    name: str,
    meta: BatchMeta,
    log: str,
    outcome: str,
    *,
    clamped: int = 0,
    errors: list[str] | None = None,
) -> RecordRows:
    row = _ReceiptRow(
        receipt_id=name,
        environment_id=meta.environment_id,
        batch_id=meta.batch_id,
        outcome=outcome,
        received=meta.events,
        clamped=clamped,
        received_at=format_epoch_ms(meta.received_ms),
        errors=errors or [],
        log=log,
        log_offset=record.offset,
    )
    return RecordRows(record.offset, _encode(row) + b"\n", 1)
