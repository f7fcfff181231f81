"""The transform of telemetry. It makes a row for each event, and a receipt for each batch."""

import asyncio
from functools import partial
from operator import attrgetter

import msgspec

from analytics_queries.stored_receipts import stored_receipts
from consumers.chunk import Chunk, ChunkRows, DeadRecord, RecordRows, RowsOnly
from consumers.deep_json import call_with_deeper_stack
from consumers.transforms.receipts import RECEIPTS, BatchIdentity, receipt_row
from consumers.transforms.telemetry_rows import telemetry_rows
from consumers.transforms.weight import weigh
from pipeline_contracts import topics
from pipeline_contracts.records import BatchMeta, LogRecord, decode_meta
from storage_backends.column_store.interface import ColumnStore

EVENTS = "pharos.telemetry_events"

# After this many events, the transform lets other tasks run: an edge may run in the same process.
_BREATH_EVENTS = 500


class TelemetryTopic(RowsOnly):
    """The transform of the topic `topics.TELEMETRY`."""

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
            # Only the first record of a batch counts. On a second attempt at the chunk, the first record is
            # this record itself.
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
    batch = BatchIdentity(name, meta.environment_id, meta.batch_id, meta.events, meta.received_ms)
    return receipt_row(record, batch, log, outcome, clamped=clamped, errors=errors)
