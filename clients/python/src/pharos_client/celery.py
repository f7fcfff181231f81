"""Celery: `monitor(app, {"celery": "1:phr_mon_…"})`. Works with Celery 5.3 and later."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from celery import signals

from pharos_client import current
from pharos_client.celery_waits import mark_as_sent, oldest_in_redis, oldest_request
from pharos_client.diagnostics import start_thread, warn
from pharos_client.failure_counts import FailureCounts
from pharos_client.process_slots import name_worker
from pharos_client.queue_monitors import QueueMonitor, read_queue_monitors
from pharos_client.queue_snapshots import Figures, QueueSnapshots
from pharos_client.worker_reports import WorkerReports

_LOOK_SECONDS = 0.5
_COMMAND = "pharos_figures"


def monitor(
    app: Any, queues: Mapping[str, str] | None = None, *, url: str | None = None, interval: float = 15.0
) -> None:
    """Report the workers of this application and its queues to Pharos, from each worker's main process.

    `queues` maps names of queues to `NUMBER:KEY` of their monitors, PHAROS_QUEUES by default. `interval`: seconds
    between snapshots. Call this where the application is created. Raises `ValueError` for queues that cannot be
    reported.
    """
    # Connect this in processes that only send jobs too.
    signals.before_task_publish.connect(mark_as_sent, weak=False)
    monitors = read_queue_monitors(queues, url)
    if monitors:
        _Adapter(app, monitors, interval).connect()


class _Adapter:
    """Follows one worker: each process of its pool is a worker for Pharos, or the main process if there are none."""

    def __init__(self, app: Any, monitors: Mapping[str, QueueMonitor], interval: float) -> None:
        self._app = app
        self._monitors = monitors
        self._interval = interval
        self._failures = FailureCounts()
        self._consumer: Any = None
        self._queues: list[str] = []
        self._name = ""
        self._slots: dict[int, int] = {}
        self._reports: WorkerReports | None = None
        self._snapshots: QueueSnapshots | None = None
        self._stopped = threading.Event()

    def connect(self) -> None:
        signals.worker_init.connect(self._prepare, weak=False)
        signals.worker_ready.connect(self._start, weak=False)
        signals.worker_shutdown.connect(self._stop, weak=False)
        signals.task_failure.connect(self._count_failure, weak=False)
        signals.worker_process_shutdown.connect(_flush_events, weak=False)

    def _prepare(self, **_: Any) -> None:
        from celery.worker import control

        # Before the pool forks, so that its processes inherit the pipe.
        self._failures.open()

        @control.inspect_command(name=_COMMAND)  # type: ignore[untyped-decorator, unused-ignore]
        def pharos_figures(_state: Any, **_: Any) -> Any:
            """Return numbers of jobs by queue (active, reserved, scheduled, failed), and the time since which the first
            job waits."""
            return self._count_own()

    def _start(self, sender: Any, **_: Any) -> None:
        self._consumer = sender
        self._queues = [name for name in self._monitors if name in self._app.amqp.queues.consume_from]
        self._name = name_worker(f"celery {sender.hostname}", self._monitors.values())
        self._reports = WorkerReports(self._monitors)
        self._look()
        start_thread("pharos-celery", self._run)
        self._snapshots = QueueSnapshots(self._monitors, self._read_figures, self._interval)

    def _stop(self, **_: Any) -> None:
        self._stopped.set()
        if self._snapshots is not None:
            self._snapshots.stop()
        if self._reports is not None:
            self._reports.stop()

    def _count_failure(self, sender: Any = None, **_: Any) -> None:
        request = getattr(sender, "request", None)
        self._failures.add(self._queue_of(getattr(request, "delivery_info", None)))

    def _run(self) -> None:
        while not self._stopped.wait(_LOOK_SECONDS):
            try:
                self._failures.collect()
                self._look()
            except Exception as error:
                warn("celery", f"The worker could not be observed: {type(error).__name__}: {error}")

    def _look(self) -> None:
        """Report the present job of each process of the pool."""
        if self._reports is None:
            return
        running: dict[int, Any] = {}
        for request in sorted(_active_requests(), key=lambda request: request.time_start or 0.0):
            running.setdefault(request.worker_pid or os.getpid(), request)
        # Pools of threads and greenlets have no processes. The pool without concurrency has only the main process. The
        # list is empty for a moment while the only process of a pool is replaced.
        processes = self._consumer.pool.info.get("processes")
        if processes is None or list(processes) == [os.getpid()]:
            self._report(self._name, next(iter(running.values()), None))
            return
        for pid in set(self._slots) - set(processes):
            # The replacement of the process gets its number. Without a replacement, the pool has become smaller.
            self._reports.set_stopped(f"{self._name}/{self._slots.pop(pid)}")
        for pid in processes:
            if pid not in self._slots:
                self._slots[pid] = min(set(range(len(self._slots) + 1)) - set(self._slots.values()))
            self._report(f"{self._name}/{self._slots[pid]}", running.get(pid))

    def _report(self, worker: str, request: Any) -> None:
        assert self._reports is not None
        if request is None:
            self._reports.set_idle(worker, self._queues)
        else:
            self._reports.set_busy(
                worker, self._queues, request.id, self._queue_of(request.delivery_info) or ""
            )

    def _count_own(self) -> dict[str, dict[str, Any]]:
        from celery.worker import state

        active = _active_requests()
        identifiers = {request.id for request in active}
        waiting = [request for request in _copy(state.reserved_requests) if request.id not in identifiers]
        scheduled = _scheduled_requests(self._consumer.timer) if self._consumer is not None else []
        return {
            "active": self._count_queues(active),
            "reserved": self._count_queues(waiting),
            "scheduled": self._count_queues(scheduled),
            "failed": self._failures.count(),
            "since": {name: oldest_request(requests) for name, requests in self._by_queue(waiting).items()},
        }

    def _by_queue(self, requests: Iterable[Any]) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for request in requests:
            found.setdefault(self._queue_of(request.delivery_info) or "", []).append(request)
        return found

    def _count_queues(self, requests: Iterable[Any]) -> dict[str, int]:
        return {name: len(each) for name, each in self._by_queue(requests).items()}

    def _queue_of(self, delivery_info: Any) -> str | None:
        """Return the name of the queue that a message came from."""
        exchange = (delivery_info or {}).get("exchange") or ""
        key = (delivery_info or {}).get("routing_key")
        queues = self._app.amqp.queues
        if key in queues and not exchange:
            return str(key)
        for name, queue in queues.items():
            if queue.routing_key == key and getattr(queue.exchange, "name", "") == exchange:
                return str(name)
        return str(key) if key is not None else None

    def _read_figures(self) -> Mapping[str, Figures]:
        totals: dict[str, Counter[str]] = {}
        since: dict[str, list[float | None]] = {}
        with self._app.connection_for_read() as connection:
            sizes = {name: _queue_length(connection, name) for name in self._monitors}
            for name in self._monitors:
                since[name] = [oldest_in_redis(connection, name)]
            replies = self._app.control.broadcast(_COMMAND, reply=True, timeout=1.0, connection=connection)
        own = {self._consumer.hostname: self._count_own()}
        found = {host: reply for each in replies or () for host, reply in each.items() if "active" in reply}
        # A worker without a pool does not respond while it runs a job; it knows its own figures.
        for reply in {**found, **own}.values():
            for name, time_of_first in reply.pop("since", {}).items():
                since.setdefault(name, []).append(time_of_first)
            for kind, counts in reply.items():
                totals.setdefault(kind, Counter()).update(counts)
        empty: Counter[str] = Counter()
        return {
            name: Figures(
                pending=size + totals.get("reserved", empty)[name],
                delayed=totals.get("scheduled", empty)[name],
                reserved=totals.get("active", empty)[name],
                failed=totals.get("failed", empty)[name],
                oldest_wait_seconds=_seconds_since(since[name]),
            )
            for name, size in sizes.items()
        }


def _active_requests() -> list[Any]:
    from celery.worker import state

    return _copy(state.active_requests)


def _copy(requests: Any) -> list[Any]:
    """Return the members of a set that another thread changes."""
    for _ in range(100):
        try:
            return list(requests)
        except RuntimeError:
            continue
    return []


def _scheduled_requests(timer: Any) -> list[Any]:
    """Return requests with a start time (`eta`, `countdown`), which wait in the worker's memory."""
    from celery.worker.request import Request

    found = []
    for waiting in _copy(timer.schedule.queue):
        arguments = waiting.entry.args
        if arguments and isinstance(arguments[0], Request):
            found.append(arguments[0])
    return found


def _queue_length(connection: Any, name: str) -> int:
    try:
        declared = connection.default_channel.queue_declare(queue=name, passive=True)
    except connection.channel_errors:
        # The queue does not exist yet.
        return 0
    return int(declared.message_count)


def _seconds_since(times: list[float | None]) -> int | None:
    oldest = min((time_of_first for time_of_first in times if time_of_first is not None), default=None)
    return None if oldest is None else max(0, int(time.time() - oldest))


def _flush_events(**_: Any) -> None:
    if current._client is not None:
        current._client.flush(2.0)
