"""What the topics of OTLP become: rows, whichever way the body was coded."""

import asyncio
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

import msgspec

from consumers.chunk import Chunk, ChunkRows, DeadRecord, RecordRows
from consumers.deep_json import read_deep
from consumers.transforms.otlp.logs import log_rows
from consumers.transforms.otlp.metrics import metric_rows
from consumers.transforms.otlp.shared_columns import Place
from consumers.transforms.otlp.traces import trace_rows
from consumers.transforms.rows_only import RowsOnly
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

Rows = Callable[[Any, Place], dict[str, tuple[bytes, int]]]


class OtlpTopic(RowsOnly):
    """One signal's transform."""

    def __init__(self, topic: str, request: type[msgspec.Struct], in_protobuf: str, rows: Rows) -> None:
        self.topic = topic
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(request, strict=False).decode
        self._in_protobuf = in_protobuf
        self._rows = rows

    def weight(self, record: LogRecord) -> tuple[int, int]:
        return weigh(record, decode_otlp_meta, attrgetter("records"))

    async def rows(self, chunk: Chunk, store: ColumnStore) -> ChunkRows:
        result = ChunkRows()
        breath = 0
        for record in chunk.records:
            try:
                meta = decode_otlp_meta(record.meta)
                place = Place(meta, chunk.log, record.offset)
                tables = read_deep(partial(self._tables, record.value, place))
            except (msgspec.MsgspecError, RecursionError) as error:
                result.dead.append(DeadRecord(record, f"The body cannot be read: {error}"))
                continue
            for table, (lines, count) in tables.items():
                result.tables.setdefault(table, []).append(RecordRows(record.offset, lines, count))
            breath += meta.records
            if breath >= _BREATH_RECORDS:
                breath = 0
                await asyncio.sleep(0)
        return result

    def _tables(self, body: bytes, place: Place) -> dict[str, tuple[bytes, int]]:
        """(JSON lines, rows) by table."""
        return self._rows(self._request(place.meta, body), place)

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
