"""The transform of the OTLP topics: makes rows from JSON and protobuf bodies."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any

import msgspec
from msgspec.structs import replace

from analytics_queries.stored_receipts import stored_receipts
from consumers.chunk import Chunk, ChunkRows, DeadRecord, Piece, RecordRows, RowsOnly
from consumers.deep_json import call_with_deeper_stack
from consumers.transforms.otlp.logs import log_rows
from consumers.transforms.otlp.metrics import metric_rows
from consumers.transforms.otlp.shared_columns import RecordOrigin, TablePiece
from consumers.transforms.otlp.traces import trace_rows
from consumers.transforms.receipts import RECEIPTS, BatchIdentity, receipt_row
from consumers.transforms.weight import weigh
from pipeline_contracts import topics
from pipeline_contracts.otlp.logs import LogsRequest
from pipeline_contracts.otlp.metrics import MetricsRequest
from pipeline_contracts.otlp.records import OtlpMeta, decode_otlp_meta
from pipeline_contracts.otlp.traces import TracesRequest
from pipeline_contracts.records import LogRecord
from storage_backends.column_store.interface import ColumnStore

# After this many records, the transform lets other tasks run: an edge may run in the same process.
_YIELD_EVERY_RECORDS = 300

# Maximum bytes of a chunk's rows in memory. Further rows are generated during the insert, piece by piece: attributes
# that many records share can make the rows a thousand times larger than the chunk.
_MAX_BUFFERED_BYTES = 64 * 2**20

Rows = Callable[[Any, RecordOrigin], Iterator[TablePiece]]


class _BufferedRows:
    """The rows of one record by table, as (lines, number of rows). Once the rows exceed `max_bytes`, only their number
    is kept."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self.size = 0
        self.is_over_limit = False
        self.tables: dict[str, tuple[list[bytes], int]] = {}

    def add(self, table: str, lines: bytes, rows: int) -> None:
        parts, count = self.tables.get(table, ([], 0))
        self.size += len(lines)
        if self.size > self._max_bytes:
            self.is_over_limit = True
            for table_parts, _ in self.tables.values():
                table_parts.clear()
        else:
            parts.append(lines)
        self.tables[table] = parts, count + rows


class OtlpTopic(RowsOnly):
    """The transform of one signal: traces, logs or metrics."""

    def __init__(self, topic: str, request: type[msgspec.Struct], protobuf_parser: str, rows: Rows) -> None:
        self.topic = topic
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(request, strict=False).decode
        self._protobuf_parser = protobuf_parser
        self._rows = rows

    def weight(self, record: LogRecord) -> tuple[int, int]:
        return weigh(record, decode_otlp_meta, attrgetter("records"))

    async def make_rows(self, chunk: Chunk, store: ColumnStore) -> ChunkRows:
        result = ChunkRows()
        receipts: list[RecordRows] = []
        bytes_left = _MAX_BUFFERED_BYTES
        since_yield = 0
        for record, origin, batch in await self._first_records(chunk, store, result, receipts):
            buffered = _BufferedRows(bytes_left)
            try:
                for table, lines, count in self._pieces(record, origin):
                    buffered.add(table, lines, count)
                    since_yield += count
                    if since_yield >= _YIELD_EVERY_RECORDS or buffered.is_over_limit:
                        since_yield = 0
                        await asyncio.sleep(0)
            except (msgspec.MsgspecError, RecursionError) as error:
                reason = f"The body cannot be read: {error}"
                result.dead.append(DeadRecord(record, reason))
                if batch is not None:
                    receipts.append(receipt_row(record, batch, chunk.log, "failed", errors=[reason]))
                continue
            if not buffered.is_over_limit:
                bytes_left -= buffered.size
            for table, (parts, count) in buffered.tables.items():
                rows = RecordRows(record.offset, b"".join(parts), count, is_splittable=True)
                if buffered.is_over_limit:
                    rows = replace(rows, lines=b"", generate=partial(self._regenerate, record, origin, table))
                result.tables.setdefault(table, []).append(rows)
            if batch is not None:
                receipts.append(receipt_row(record, batch, chunk.log, "stored"))
        if receipts:
            # The receipts are the last table, because a receipt says that the rows are stored.
            result.tables[RECEIPTS] = receipts
        return result

    async def _first_records(
        self, chunk: Chunk, store: ColumnStore, result: ChunkRows, receipts: list[RecordRows]
    ) -> list[tuple[LogRecord, RecordOrigin, BatchIdentity | None]]:
        """Return the records that are stored: all records without an identity, and the first record of each identity.

        Unreadable and repeated records are added to `result` and `receipts`.
        """
        readable = []
        for record in chunk.records:
            try:
                meta = decode_otlp_meta(record.meta)
                batch = _identify(record, meta) if meta.batch_id else None
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                result.dead.append(DeadRecord(record, f"The record's head cannot be read: {error}"))
                continue
            readable.append((record, RecordOrigin(meta, chunk.log, record.offset), batch))
        names = {batch.name for _, _, batch in readable if batch is not None}
        if not names:
            return readable
        stored_from = await stored_receipts(store, list(names))
        first = []
        for record, origin, batch in readable:
            place = (chunk.log, record.offset)
            # On a second attempt at the chunk, the stored record is this record itself.
            if batch is None or stored_from.setdefault(batch.name, place) == place:
                first.append((record, origin, batch))
            else:
                result.duplicates += 1
                receipts.append(receipt_row(record, batch, chunk.log, "duplicate"))
        return first

    def report_refusal(self, record: LogRecord, reason: str, log: str) -> tuple[str, RecordRows] | None:
        meta = decode_otlp_meta(record.meta)
        if not meta.batch_id:
            return None
        error = f"The column store refused the rows: {reason[:300]}"
        return RECEIPTS, receipt_row(record, _identify(record, meta), log, "failed", errors=[error])

    def _pieces(self, record: LogRecord, origin: RecordOrigin) -> Iterator[TablePiece]:
        yielded = 0
        try:
            for piece in self._rows(self._request(origin.meta, record.value), origin):
                yield piece
                yielded += 1
        except RecursionError:
            # Make all pieces at once: between two pieces, other code would run with the higher recursion limit.
            pieces = call_with_deeper_stack(
                lambda: list(self._rows(self._request(origin.meta, record.value), origin))
            )
            yield from pieces[yielded:]

    def _regenerate(self, record: LogRecord, origin: RecordOrigin, table: str) -> Iterator[Piece]:
        """Make the record's rows in this table again, during the insert."""
        for name, lines, count in self._pieces(record, origin):
            if name == table:
                yield lines, count

    def _request(self, meta: OtlpMeta, body: bytes) -> Any:
        if meta.coding == "json":
            return self._decode(body)
        # This module is imported only if a client sends protobuf.
        from consumers.transforms.otlp import protobuf

        return getattr(protobuf, self._protobuf_parser)(body)


def _identify(record: LogRecord, meta: OtlpMeta) -> BatchIdentity:
    """Return the identity of the record's batch. Raises `UnicodeDecodeError` for a key that is not the name of a
    receipt."""
    return BatchIdentity(
        record.key.decode(), meta.environment_id, meta.batch_id, meta.records, meta.received_ms
    )


def traces_topic() -> OtlpTopic:
    """Return the transform of the topic `topics.TRACES`."""
    return OtlpTopic(topics.TRACES, TracesRequest, "traces_request", trace_rows)


def logs_topic() -> OtlpTopic:
    """Return the transform of the topic `topics.LOGS`."""
    return OtlpTopic(topics.LOGS, LogsRequest, "logs_request", log_rows)


def metrics_topic() -> OtlpTopic:
    """Return the transform of the topic `topics.METRICS`."""
    return OtlpTopic(topics.METRICS, MetricsRequest, "metrics_request", metric_rows)
