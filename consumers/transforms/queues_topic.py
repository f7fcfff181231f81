"""The transform of reports from queues and workers. It updates their current state, and makes rows for their
history."""

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
    """The transform of the topic `topics.QUEUES`."""

    topic = topics.QUEUES

    def decode(self, record: LogRecord) -> Report:
        return _report(decode_monitor_meta(record.meta), record.value)

    async def apply_reports(self, reports: Sequence[Report], progress: Progress, log: str) -> None:
        await self._states.apply_queues(
            [report for report in reports if isinstance(report, SeenQueue)],
            [report for report in reports if isinstance(report, SeenWorker)],
            progress,
        )

    def history_row(self, report: Report, log: str, offset: int) -> tuple[str, dict[str, Any]]:
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
    # Seconds since 1970 cannot be used: ClickHouse reads a number as a time only if it has ten digits.
    return from_epoch_ms(0) + timedelta(microseconds=microseconds)


def _observed_us(reported: datetime, received_ms: int) -> int:
    """Return the reported time in microseconds since 1970. Return the time of receipt if the reported time is
    implausible: a snapshot from the far future would stay the newest one forever."""
    received = from_epoch_ms(received_ms)
    observed = reported if is_plausible(reported, received) else received
    return (observed - from_epoch_ms(0)) // timedelta(microseconds=1)


def _report(meta: MonitorMeta, body: bytes) -> Report:
    if meta.kind == "snapshot":
        snapshot = _decode_snapshot(body)
        return SeenQueue(
            meta.monitor,
            meta.environment_id,
            str(snapshot.snapshot_id),
            _observed_us(snapshot.observed_at, meta.received_ms),
            meta.received_ms,
            snapshot.pending,
            snapshot.delayed,
            snapshot.reserved,
            snapshot.failed,
            snapshot.oldest_wait_seconds,
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
