"""Reports the states of queue workers: each change, and at least once a minute."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pharos_client.diagnostics import start_thread, warn
from pharos_client.http_post import Unreachable
from pharos_client.queue_monitors import QueueMonitor, derive_uuid

# The platform shows a worker as lost after five minutes without a report.
_LONGEST_SILENCE = 60.0
# At most one report per worker in this time: a worker with short jobs does not send two for each job.
_SHORTEST_PAUSE = 1.0
_LONGEST_RETRY = 30.0


@dataclass
class _Worker:
    """The known and the sent state of a worker of one queue, with times of the monotonic clock."""

    monitor: QueueMonitor
    worker_id: str
    state: tuple[str, str | None]
    sent: tuple[str, str | None] | None = None
    sent_at: float = float("-inf")
    sequence: int = 0
    retry_at: float = float("-inf")
    retry_pause: float = 1.0

    def due_at(self) -> float:
        """Return the time at which the next report is due; never for a worker whose end was reported."""
        if self.state[0] == "stopped":
            return float("inf") if self.sent == self.state else self.retry_at
        pause = _LONGEST_SILENCE if self.sent == self.state else _SHORTEST_PAUSE
        return max(self.sent_at + pause, self.retry_at)


class WorkerReports:
    """Reports workers of this process to the monitors of their queues. No method raises or waits for the network,
    except `stop`.

    A worker is reported to each monitored queue that it takes jobs from: as busy to the queue of its job, and as idle
    to the others.
    """

    def __init__(self, monitors: Mapping[str, QueueMonitor]) -> None:
        self._monitors = monitors
        self._changed = threading.Condition()
        self._workers: dict[tuple[str, str], _Worker] = {}
        self._stops_at: float | None = None
        self._pid = os.getpid()
        self._thread = start_thread("pharos-workers", self._run)

    def set_idle(self, worker: str, queues: Iterable[str]) -> None:
        """Record that the worker of this name waits for jobs of these queues."""
        self._set(worker, queues, ("idle", None), None)

    def set_busy(self, worker: str, queues: Iterable[str], job: str, queue: str) -> None:
        """Record that the worker runs a job of `queue`. A job ID that is not a UUID is converted to one."""
        self._set(worker, queues, ("busy", derive_uuid(job)), queue)

    def set_stopped(self, worker: str) -> None:
        """Record that the worker has ended normally."""
        with self._changed:
            for (_, name), known in self._workers.items():
                if name == worker:
                    known.state = ("stopped", None)
            self._changed.notify_all()

    def stop(self, seconds: float = 3.0) -> None:
        """Report all workers as stopped, and wait for that at most this many seconds."""
        if self._pid != os.getpid():
            return
        with self._changed:
            for known in self._workers.values():
                known.state = ("stopped", None)
            self._stops_at = time.monotonic() + seconds
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(seconds)

    def _set(
        self, worker: str, queues: Iterable[str], state: tuple[str, str | None], queue: str | None
    ) -> None:
        # In a forked process there is no thread; the parent reports.
        if self._pid != os.getpid():
            return
        with self._changed:
            for name in queues:
                monitor = self._monitors.get(name)
                if monitor is None:
                    continue
                own = state if queue is None or name == queue else ("idle", None)
                known = self._workers.get((name, worker))
                if known is None:
                    self._workers[name, worker] = _Worker(monitor, derive_uuid(worker), own)
                else:
                    known.state = own
            self._changed.notify_all()

    def _run(self) -> None:
        while (due := self._wait_for_due()) is not None:
            for worker, state in due:
                try:
                    fault = self._send(worker, state)
                except Exception as error:
                    fault = f"{type(error).__name__}: {error}"
                if fault is None:
                    worker.retry_pause = 1.0
                    continue
                # Send each worker separately, so that a revoked key of one queue does not delay the others.
                warn("workers", f"A worker's state was not reported, and is sent again: {fault}.")
                worker.retry_at = time.monotonic() + worker.retry_pause
                worker.retry_pause = min(2 * worker.retry_pause, _LONGEST_RETRY)

    def _wait_for_due(self) -> list[tuple[_Worker, tuple[str, str | None]]] | None:
        """Return the workers to report now and their states, or None at the end."""
        with self._changed:
            while True:
                now = time.monotonic()
                is_stopping = self._stops_at is not None
                if is_stopping and (self._is_complete() or now > (self._stops_at or 0.0)):
                    return None
                times = [worker.due_at() for worker in self._workers.values()]
                due = [(worker, worker.state) for worker in self._workers.values() if worker.due_at() <= now]
                if due:
                    return due
                next_at = min(times, default=float("inf"))
                self._changed.wait(None if next_at == float("inf") else next_at - now)

    def _is_complete(self) -> bool:
        return all(worker.sent == worker.state for worker in self._workers.values())

    def _send(self, worker: _Worker, state: tuple[str, str | None]) -> str | None:
        """Send one report. Return the error, if any."""
        status, job = state
        # Derived from the clock, so that a restarted worker of the same name continues above its former reports.
        worker.sequence = max(worker.sequence + 1, time.time_ns() // 1_000_000)
        body = {"worker_id": worker.worker_id, "sequence": worker.sequence, "status": status}
        try:
            response = worker.monitor.send("workers", body if job is None else {**body, "job_id": job})
        except Unreachable as error:
            return str(error)
        if not response.is_success:
            return f"the platform responded {response.status}"
        worker.sent, worker.sent_at = state, time.monotonic()
        return None
