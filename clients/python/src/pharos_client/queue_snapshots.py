"""Reads the broker once per interval and reports how many jobs wait, run and have failed."""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Callable

from pharos_client.diagnostics import start_thread, warn
from pharos_client.http_post import Unreachable
from pharos_client.process_slots import release, try_claim
from pharos_client.queue_monitors import QueueMonitor

_NAMESPACE = uuid.UUID("6d2f0a64-3b07-5f0f-8a39-1b9a6f6f0f52")
# Per queue: an hour of the default interval.
_MOST_UNSENT = 240


@dataclass(frozen=True)
class Figures:
    """Numbers of jobs. `oldest_wait_seconds`: how long the first job waits; None if the library does not report it."""

    pending: int
    delayed: int | None = None
    reserved: int | None = None
    failed: int | None = None
    oldest_wait_seconds: int | None = None


class QueueSnapshots:
    """Reports figures of queues from a separate thread.

    `read` returns the figures by the name of the queue; it may take seconds and raise. Of all processes of this machine
    with the same queues one reads. Processes of several machines report the same snapshot ID for one interval, of which
    the platform keeps the first.
    """

    def __init__(
        self,
        monitors: Mapping[str, QueueMonitor],
        read: Callable[[], Mapping[str, Figures]],
        interval: float = 15.0,
    ) -> None:
        self._monitors = monitors
        self._read = read
        self._interval = interval
        numbers = sorted((monitor.api, monitor.number) for monitor in monitors.values())
        self._lock_name = f"snapshots {numbers}"
        self._is_reader = False
        self._last_number = -1
        # By queue: a revoked key of one does not delay the others.
        self._unsent: dict[str, deque[dict[str, Any]]] = {
            name: deque(maxlen=_MOST_UNSENT) for name in monitors
        }
        self._stopped = threading.Event()
        self._thread = start_thread("pharos-snapshots", self._run)

    def stop(self, seconds: float = 3.0) -> None:
        """Stop reading; another process of this machine takes over."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(seconds)
        if self._is_reader:
            release(self._lock_name)

    def _run(self) -> None:
        while not self._stopped.is_set():
            # False: another process reads. None: there are no locks, and several may read.
            self._is_reader = self._is_reader or try_claim(self._lock_name) is not False
            if self._is_reader:
                self._report()
            now = time.time()
            self._stopped.wait(self._interval - now % self._interval)

    def _report(self) -> None:
        now = time.time()
        number = int(now / self._interval)
        if number == self._last_number:
            # The thread woke slightly too early.
            return
        self._last_number = number
        try:
            figures = self._read()
        except Exception as error:
            warn("broker", f"The queues could not be read: {type(error).__name__}: {error}")
            figures = {}
        observed = datetime.fromtimestamp(now, timezone.utc).isoformat(timespec="milliseconds")
        for name, figure in figures.items():
            monitor = self._monitors.get(name)
            if monitor is None:
                continue
            text = f"{monitor.api} {monitor.number} {self._interval} {number}"
            body = {"snapshot_id": str(uuid.uuid5(_NAMESPACE, text)), "observed_at": observed[:-6] + "Z"}
            counts = {member: value for member, value in vars(figure).items() if value is not None}
            self._unsent[name].append({**body, **counts})
        for name, monitor in self._monitors.items():
            self._send(monitor, self._unsent[name])

    def _send(self, monitor: QueueMonitor, unsent: deque[dict[str, Any]]) -> None:
        """Send the snapshots of a queue, until one fails."""
        while unsent and not self._stopped.is_set():
            body = unsent[0]
            try:
                response = monitor.send("snapshots", body)
            except Unreachable as error:
                warn("snapshots", f"A snapshot was not reported, and is sent again: {error}.")
                return
            if response.status >= 500 or response.status in (401, 408, 429):
                warn("snapshots", f"A snapshot is sent again: the platform responded {response.status}.")
                return
            if not response.is_success:
                warn("snapshots", f"A snapshot was refused: the platform responded {response.status}.")
            unsent.popleft()
