"""Dramatiq: `broker.add_middleware(PharosMiddleware({"default": "1:phr_mon_…"}))`.

Workers are reported with any broker, figures of queues with Redis. Works with Dramatiq 1.17 and later.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from dramatiq.middleware import Middleware

from pharos_client import current
from pharos_client.diagnostics import warn
from pharos_client.process_slots import name_worker
from pharos_client.queue_monitors import QueueMonitor, read_queue_monitors
from pharos_client.queue_snapshots import Figures, QueueSnapshots
from pharos_client.worker_reports import WorkerReports


class PharosMiddleware(Middleware):
    """Reports worker processes and their queues to Pharos.

    `queues` maps names of queues to `NUMBER:KEY` of their monitors, PHAROS_QUEUES by default. A process with several
    threads is one worker: it is busy with the job that it has run for longest. `interval`: seconds between snapshots.
    """

    def __init__(
        self, queues: Mapping[str, str] | None = None, *, url: str | None = None, interval: float = 15.0
    ) -> None:
        self._monitors = read_queue_monitors(queues, url)
        self._interval = interval
        self._lock = threading.Lock()
        self._running: dict[str, str] = {}
        self._queues: list[str] = []
        self._name = ""
        self._reports: WorkerReports | None = None
        self._snapshots: QueueSnapshots | None = None
        self._shared_counts: _RunningCounts | None = None

    def after_worker_boot(self, broker: Any, worker: Any) -> None:
        if not self._monitors:
            return
        self._name = name_worker(f"dramatiq@{socket.gethostname()}", self._monitors.values())
        taken = getattr(worker, "queues", None) or broker.get_declared_queues()
        self._queues = [name for name in self._monitors if name in taken]
        self._reports = WorkerReports(self._monitors)
        self._reports.set_idle(self._name, self._queues)
        if hasattr(broker, "client") and hasattr(broker, "namespace"):
            counts = _RunningCounts(broker.client, broker.namespace, self._name, self._interval, self._count)
            self._shared_counts = counts
            self._snapshots = QueueSnapshots(
                self._monitors,
                lambda: read_figures(broker.client, broker.namespace, self._monitors, counts),
                self._interval,
            )
        else:
            warn("dramatiq", "Only figures of queues in Redis are reported; workers are.")

    def before_process_message(self, broker: Any, message: Any) -> None:
        if self._reports is not None:
            with self._lock:
                self._running[message.message_id] = message.queue_name
                self._report()

    def after_process_message(
        self, broker: Any, message: Any, *, result: Any = None, exception: BaseException | None = None
    ) -> None:
        self._end(message)

    def after_skip_message(self, broker: Any, message: Any) -> None:
        self._end(message)

    def before_worker_shutdown(self, broker: Any, worker: Any) -> None:
        if self._snapshots is not None:
            self._snapshots.stop()
        if self._shared_counts is not None:
            self._shared_counts.stop()

    def after_worker_shutdown(self, broker: Any, worker: Any) -> None:
        if self._reports is not None:
            self._reports.stop()
        if current._client is not None:
            current._client.flush(2.0)

    def _end(self, message: Any) -> None:
        if self._reports is not None:
            with self._lock:
                self._running.pop(message.message_id, None)
                self._report()

    def _report(self) -> None:
        assert self._reports is not None
        if self._running:
            # Dictionaries keep their order, so the first job has run for the longest time.
            job, queue = next(iter(self._running.items()))
            self._reports.set_busy(self._name, self._queues, job, queue)
        else:
            self._reports.set_idle(self._name, self._queues)

    def _count(self) -> Counter[str]:
        with self._lock:
            return Counter(self._running.values())


class _RunningCounts:
    """Shares the number of running jobs of each process through the broker's Redis.

    The broker only knows which messages were fetched; a worker fetches more than it runs.
    """

    def __init__(self, client: Any, namespace: str, name: str, interval: float, count: Any) -> None:
        self._client = client
        self._key = f"{namespace}:__pharos_running__"
        self._name = name
        self._period = min(interval / 2, 5.0)
        self._count = count
        self._pid = os.getpid()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pharos-running", daemon=True)
        self._thread.start()

    def read(self) -> Counter[str]:
        """Return the running jobs by queue, of all processes."""
        now = self._now()
        total = Counter(self._count())
        for name, text in self._client.hgetall(self._key).items():
            name = name.decode() if isinstance(name, bytes) else name
            try:
                at, counts = json.loads(text)
            except ValueError:
                continue
            if name != self._name and now - at <= 3 * self._period + 5.0:
                total.update(counts)
        return total

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(1.0)
        try:
            self._client.hdel(self._key, self._name)
        except Exception as error:  # The entry expires by itself.
            warn("broker", f"Redis: {type(error).__name__}: {error}")

    def _now(self) -> float:
        # The clock of Redis, because those of several machines differ.
        seconds, microseconds = self._client.time()
        return float(seconds) + float(microseconds) / 1_000_000

    def _run(self) -> None:
        while not self._stopped.wait(self._period):
            try:
                self._client.hset(self._key, self._name, json.dumps([self._now(), self._count()]))
                self._client.expire(self._key, 3600)
            except Exception as error:
                warn("broker", f"Running jobs could not be counted: {type(error).__name__}: {error}")


def read_figures(
    client: Any, namespace: str, monitors: Mapping[str, QueueMonitor], running: _RunningCounts
) -> Mapping[str, Figures]:
    """Return the figures of queues in Redis."""
    counts = running.read()
    return {name: _read_queue(client, f"{namespace}:{name}", counts[name]) for name in monitors}


def _read_queue(client: Any, queue: str, running: int) -> Figures:
    with client.pipeline(transaction=False) as pipe:
        pipe.hlen(f"{queue}.msgs")
        pipe.hlen(f"{queue}.DQ.msgs")
        pipe.zcard(f"{queue}.XQ")
        pipe.lindex(queue, 0)
        unfinished, delayed, failed, first = pipe.execute()
    message = client.hget(f"{queue}.msgs", first) if first else None
    return Figures(
        pending=max(0, unfinished - running),
        delayed=delayed,
        reserved=running,
        failed=failed,
        oldest_wait_seconds=None if message is None else _wait_seconds(message),
    )


def _wait_seconds(message: bytes) -> int | None:
    try:
        return max(0, int(time.time() - json.loads(message)["message_timestamp"] / 1000))
    except (ValueError, KeyError, TypeError):  # The message has another encoder than Dramatiq's own.
        return None
