"""What the topics of OTLP become: rows, whichever way the body was coded."""

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any

import msgspec

from consumers.chunk import Chunk, ChunkRows, DeadRecord, Piece, RecordRows, RowsOnly
from consumers.deep_json import call_with_deeper_stack
from consumers.transforms.otlp.logs import log_rows
from consumers.transforms.otlp.metrics import metric_rows
from consumers.transforms.otlp.shared_columns import Place, TablePiece
from consumers.transforms.otlp.traces import trace_rows
from consumers.transforms.weight import weigh
from pipeline_contracts import topics
from pipeline_contracts.otlp.logs import LogsRequest
from pipeline_contracts.otlp.metrics import MetricsRequest
from pipeline_contracts.otlp.records import OtlpMeta, decode_otlp_meta
from pipeline_contracts.otlp.traces import TracesRequest
from pipeline_contracts.records import LogRecord
from storage_backends.column_store.interface import ColumnStore

# Between so many records the event loop serves others: an edge may live in the same process.
_BREATH_RECORDS = 300

# Of the rows of a chunk. What is more is made again, piece by piece, when it is inserted: attributes that many records
# share can become a thousand times as many bytes as the chunk has.
_MOST_HELD_BYTES = 64 * 2**20

Rows = Callable[[Any, Place], Iterator[TablePiece]]


class _Held:
    """The rows of one record by table, (lines, number), as long as they come to no more than `most` bytes; above that
    only their number."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.size = 0
        self.given_up = False
        self.tables: dict[str, tuple[list[bytes], int]] = {}

    def add(self, table: str, lines: bytes, rows: int) -> None:
        parts, count = self.tables.get(table, ([], 0))
        self.size += len(lines)
        if self.size > self._most:
            self.given_up = True
            for held, _ in self.tables.values():
                held.clear()
        else:
            parts.append(lines)
        self.tables[table] = parts, count + rows


class OtlpTopic(RowsOnly):
    """One signal's transform."""

    def __init__(self, topic: str, request: type[msgspec.Struct], in_protobuf: str, rows: Rows) -> None:
        self.topic = topic
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(request, strict=False).decode
        self._in_protobuf = in_protobuf
        self._rows = rows

    def weight(self, record: LogRecord) -> tuple[int, int]:
        return weigh(record, decode_otlp_meta, attrgetter("records"))

    async def make_rows(self, chunk: Chunk, store: ColumnStore) -> ChunkRows:
        result = ChunkRows()
        left = _MOST_HELD_BYTES
        breath = 0
        for record in chunk.records:
            held = _Held(left)
            try:
                place = Place(decode_otlp_meta(record.meta), chunk.log, record.offset)
                for table, lines, count in self._pieces(record, place):
                    held.add(table, lines, count)
                    breath += count
                    if breath >= _BREATH_RECORDS or held.given_up:
                        breath = 0
                        await asyncio.sleep(0)
            except (msgspec.MsgspecError, RecursionError) as error:
                result.dead.append(DeadRecord(record, f"The body cannot be read: {error}"))
                continue
            if not held.given_up:
                left -= held.size
            for table, (parts, count) in held.tables.items():
                rows = RecordRows(record.offset, b"".join(parts), count, is_splittable=True)
                if held.given_up:
                    rows = rows._replace(lines=b"", generate=partial(self._again, record, place, table))
                result.tables.setdefault(table, []).append(rows)
        return result

    def _pieces(self, record: LogRecord, place: Place) -> Iterator[TablePiece]:
        given = 0
        try:
            for piece in self._rows(self._request(place.meta, record.value), place):
                yield piece
                given += 1
        except RecursionError:
            # All at once: while pieces were awaited, the higher limit would be everybody's.
            pieces = call_with_deeper_stack(
                lambda: list(self._rows(self._request(place.meta, record.value), place))
            )
            yield from pieces[given:]

    def _again(self, record: LogRecord, place: Place, table: str) -> Iterator[Piece]:
        """The record's rows in the table, made when they are inserted."""
        for name, lines, count in self._pieces(record, place):
            if name == table:
                yield lines, count

    def _request(self, meta: OtlpMeta, body: bytes) -> Any:
        if meta.coding == "json":
            return self._decode(body)
        # Only where somebody sends it.
        from consumers.transforms.otlp import protobuf

        return getattr(protobuf, self._in_protobuf)(body)


def traces_topic() -> OtlpTopic:
    """The transform of `topics.TRACES`."""
    return OtlpTopic(topics.TRACES, TracesRequest, "traces_request", trace_rows)


def logs_topic() -> OtlpTopic:
    """The transform of `topics.LOGS`."""
    return OtlpTopic(topics.LOGS, LogsRequest, "logs_request", log_rows)


def metrics_topic() -> OtlpTopic:
    """The transform of `topics.METRICS`."""
    return OtlpTopic(topics.METRICS, MetricsRequest, "metrics_request", metric_rows)
