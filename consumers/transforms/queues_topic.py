"""What queues and their workers report: their present state, and rows of history."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from consumers.transforms.monitor_topic import MonitorTopic
from pipeline_contracts import topics
from pipeline_contracts.monitors import MonitorMeta, QueueSnapshot, WorkerUpdate, decode_monitor_meta
from pipeline_contracts.records import LogRecord
from pipeline_contracts.times import format_time, from_epoch_ms, is_plausible
from storage_backends.monitor_states.interface import Progress, SeenQueue, SeenWorker

SNAPSHOTS = "pharos.queue_snapshots"
UPDATES = "pharos.queue_worker_updates"

_decode_snapshot = msgspec.json.Decoder(QueueSnapshot).decode
_decode_update = msgspec.json.Decoder(WorkerUpdate).decode

Report = SeenQueue | SeenWorker


class QueuesTopic(MonitorTopic[Report]):
    """The transform of `topics.QUEUES`."""

    topic = topics.QUEUES

    def read(self, record: LogRecord) -> Report:
        return _report(decode_monitor_meta(record.meta), record.value)

    async def change(self, reports: Sequence[Report], progress: Progress, log: str) -> None:
        await self._states.apply_queues(
            [report for report in reports if isinstance(report, SeenQueue)],
            [report for report in reports if isinstance(report, SeenWorker)],
            progress,
        )

    def row(self, report: Report, log: str, offset: int) -> tuple[str, dict[str, Any]]:
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
                "observed_at": _moment(report.observed_us).isoformat(timespec="microseconds"),
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


def _moment(microseconds: int) -> datetime:
    # Not as seconds since 1970: ClickHouse reads these as a time only where they have ten digits.
    return from_epoch_ms(0) + timedelta(microseconds=microseconds)


def _observed_us(told: datetime, received_ms: int) -> int:
    """When the queue was looked at; the time of receipt where the sender's clock cannot be right. A snapshot from far
    ahead would be the present one for good."""
    received = from_epoch_ms(received_ms)
    seen = told if is_plausible(told, received) else received
    return (seen - from_epoch_ms(0)) // timedelta(microseconds=1)


def _report(meta: MonitorMeta, body: bytes) -> Report:
    if meta.kind == "snapshot":
        seen = _decode_snapshot(body)
        return SeenQueue(
            meta.monitor,
            meta.environment_id,
            str(seen.snapshot_id),
            _observed_us(seen.observed_at, meta.received_ms),
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
