"""What queues and their workers report: their present state, and rows of history."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from consumers.chunk import Chunk, ChunkRows, DeadRecord, RecordRows
from consumers.transforms.heartbeats_topic import weigh
from pipeline_contracts import topics
from pipeline_contracts.monitors import MonitorMeta, QueueSnapshot, WorkerUpdate
from pipeline_contracts.records import LogRecord
from pipeline_contracts.times import format_time, from_epoch_ms
from storage_backends.column_store.interface import ColumnStore
from storage_backends.monitor_states.interface import MonitorStates, Progress, SeenQueue, SeenWorker

SNAPSHOTS = "pharos.queue_snapshots"
UPDATES = "pharos.queue_worker_updates"
# In one transaction: other writers of the database wait for no longer than that takes.
_REPORTS_AT_ONCE = 2000

_decode_meta = msgspec.msgpack.Decoder(MonitorMeta).decode
_decode_snapshot = msgspec.json.Decoder(QueueSnapshot).decode
_decode_update = msgspec.json.Decoder(WorkerUpdate).decode
_encode = msgspec.json.Encoder().encode

Report = SeenQueue | SeenWorker


class QueuesTopic:
    """The transform of `topics.QUEUES`."""

    topic = topics.QUEUES
    follows_time = True

    def __init__(self, states: MonitorStates) -> None:
        self._states = states

    def weight(self, record: LogRecord) -> tuple[int, int]:
        return weigh(record)

    async def apply(self, chunk: Chunk, partition: int) -> None:
        reports = [report for _, report in _readable(chunk.records)]
        for begin in range(0, len(reports), _REPORTS_AT_ONCE):
            part = reports[begin : begin + _REPORTS_AT_ONCE]
            await self._states.apply_queues(
                [report for report in part if isinstance(report, SeenQueue)],
                [report for report in part if isinstance(report, SeenWorker)],
                Progress(self.topic, partition, max(report.received_ms for report in part)),
            )

    async def caught_up(self, partition: int, as_of_ms: int) -> None:
        await self._states.note_progress(Progress(self.topic, partition, as_of_ms))

    async def rows(self, chunk: Chunk, store: ColumnStore) -> ChunkRows:
        result = ChunkRows()
        readable = set()
        for record, report in _readable(chunk.records):
            readable.add(record.offset)
            table, row = _row(report, chunk.log, record.offset)
            result.tables.setdefault(table, []).append(RecordRows(record.offset, _encode(row) + b"\n", 1))
        result.dead = [
            DeadRecord(record, "The report cannot be read.")
            for record in chunk.records
            if record.offset not in readable
        ]
        return result

    def refused(self, record: LogRecord, reason: str, log: str) -> tuple[str, RecordRows] | None:
        return None


def _readable(records: Iterable[LogRecord]) -> Iterator[tuple[LogRecord, Report]]:
    for record in records:
        try:
            yield record, _report(_decode_meta(record.meta), record.value)
        except msgspec.DecodeError:
            continue


def _report(meta: MonitorMeta, body: bytes) -> Report:
    if meta.kind == "snapshot":
        seen = _decode_snapshot(body)
        return SeenQueue(
            meta.monitor,
            meta.environment_id,
            str(seen.snapshot_id),
            round(seen.observed_at.timestamp() * 1_000_000),
            meta.received_ms,
            seen.pending,
            seen.delayed,
            seen.reserved,
            seen.failed,
            seen.oldest_wait_seconds,
        )
    update = _decode_update(body)
    job = None if update.job_id is None else str(update.job_id)
    return SeenWorker(
        meta.monitor,
        meta.environment_id,
        str(update.worker_id),
        update.sequence,
        update.status,
        job,
        meta.received_ms,
    )


def _row(report: Report, log: str, offset: int) -> tuple[str, dict[str, Any]]:
    """The table and the row of a report."""
    common = {
        "environment_id": report.environment_id,
        "queue_id": report.queue_id,
        "received_at": format_time(from_epoch_ms(report.received_ms)),
        "log": log,
        "log_offset": offset,
    }
    if isinstance(report, SeenQueue):
        return SNAPSHOTS, {
            **common,
            "snapshot_id": report.snapshot_id,
            "observed_at": f"{report.observed_us // 10**6}.{report.observed_us % 10**6:06d}",
            "pending": report.pending,
            "delayed": report.delayed,
            "reserved": report.reserved,
            "failed": report.failed,
            "oldest_wait_seconds": report.oldest_wait_seconds,
        }
    return UPDATES, {
        **common,
        "worker_id": report.worker_id,
        "sequence": report.sequence,
        "status": report.status,
        "job_id": report.job_id,
    }
