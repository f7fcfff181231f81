"""RQ: `rq worker --worker-class pharos_client.rq.PharosWorker mail`, with PHAROS_URL and PHAROS_QUEUES.

Works with RQ 2 and 3.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import rq
from rq.job import Job

from pharos_client import current
from pharos_client.process_slots import name_worker
from pharos_client.queue_monitors import QueueMonitor, read_queue_monitors
from pharos_client.queue_snapshots import Figures, QueueSnapshots
from pharos_client.worker_reports import WorkerReports

# The methods that it extends are those of the class next to it.
_Base: Any = rq.Worker if TYPE_CHECKING else object


class PharosWorkerMixin(_Base):
    """Reports a worker and its queues to Pharos. In your own worker class, list it before RQ's class.

    `pharos_queues` maps names of queues to `NUMBER:KEY` of their monitors; PHAROS_QUEUES is used if it is None. The
    worker's name consists of its host and a number, so that a restarted worker replaces the former one.
    """

    pharos_queues: Mapping[str, str] | None = None
    pharos_url: str | None = None
    pharos_interval = 15.0
    _pharos_reports: WorkerReports | None = None
    _pharos_snapshots: QueueSnapshots | None = None
    _pharos_name = ""

    def register_birth(self) -> None:
        super().register_birth()
        monitors = read_queue_monitors(self.pharos_queues, self.pharos_url)
        if not monitors:
            return
        self._pharos_name = name_worker(f"rq@{socket.gethostname()}", monitors.values())
        self._pharos_reports = WorkerReports(monitors)
        self._pharos_reports.set_idle(self._pharos_name, self.queue_names())
        self._pharos_snapshots = QueueSnapshots(
            monitors, lambda: read_figures(self.connection, monitors), self.pharos_interval
        )

    def execute_job(self, job: Any, queue: Any) -> None:
        if self._pharos_reports is None:
            super().execute_job(job, queue)
            return
        self._pharos_reports.set_busy(self._pharos_name, self.queue_names(), job.id, queue.name)
        try:
            super().execute_job(job, queue)
        finally:
            self._pharos_reports.set_idle(self._pharos_name, self.queue_names())

    def perform_job(self, *arguments: Any, **named: Any) -> bool:
        try:
            return bool(super().perform_job(*arguments, **named))
        finally:
            # RQ ends the process of a job without the interpreter's exit.
            if current._client is not None:
                current._client.flush(2.0)

    def register_death(self) -> None:
        if self._pharos_snapshots is not None:
            self._pharos_snapshots.stop()
        if self._pharos_reports is not None:
            self._pharos_reports.stop()
        super().register_death()


class PharosWorker(PharosWorkerMixin, rq.Worker):
    """RQ's worker, which reports itself and its queues to Pharos."""


def read_figures(connection: Any, monitors: Mapping[str, QueueMonitor]) -> Mapping[str, Figures]:
    """Return the figures of RQ queues. Only reads: RQ's own counts would also move expired jobs."""
    return {name: _read_queue(connection, rq.Queue(name, connection=connection)) for name in monitors}


def _read_queue(connection: Any, queue: rq.Queue) -> Figures:
    oldest = None
    first = queue.get_job_ids(0, 1)
    if first:
        found = Job.fetch_many(first, connection=connection)
        enqueued = found[0].enqueued_at if found and found[0] is not None else None
        if enqueued is not None:
            oldest = max(0, int(time.time() - enqueued.timestamp()))
    scheduled = connection.zcard(queue.scheduled_job_registry.key)
    deferred = connection.zcard(queue.deferred_job_registry.key)
    return Figures(
        pending=queue.count,
        delayed=scheduled + deferred,
        # Scores are times until which a job's worker has promised to report again.
        reserved=connection.zcount(queue.started_job_registry.key, time.time(), "+inf"),
        failed=connection.zcard(queue.failed_job_registry.key),
        oldest_wait_seconds=oldest,
    )
