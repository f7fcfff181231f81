"""Counts failed jobs of a worker with several processes."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter, deque

from pharos_client.diagnostics import warn

_FAILURES_SECONDS = 24 * 3600


class FailureCounts:
    """Counts failed jobs of the last 24 hours by queue.

    Jobs fail in processes of the pool, which write the queue's name into a pipe: a write of this size is atomic, and a
    killed process cannot leave a lock behind.
    """

    def __init__(self) -> None:
        self._reader = self._writer = -1
        self._minutes: deque[tuple[int, Counter[str]]] = deque()
        self._rest = b""
        self._lock = threading.Lock()

    def open(self) -> None:
        if self._reader < 0:
            self._reader, self._writer = os.pipe()
            os.set_blocking(self._reader, False)
            os.set_blocking(self._writer, False)

    def add(self, queue: str | None) -> None:
        """Count one failure. Processes of the pool may call this too."""
        if queue and self._writer >= 0:
            try:
                os.write(self._writer, f"{queue[:200]}\n".encode())
            except OSError as error:
                warn("celery", f"A failed job is not counted: {error}")

    def collect(self) -> None:
        """Read the failures that were written since the last call."""
        with self._lock:
            while True:
                try:
                    text = os.read(self._reader, 65536)
                except (BlockingIOError, OSError):
                    return
                if not text:
                    return
                *names, self._rest = (self._rest + text).split(b"\n")
                minute = int(time.time() // 60)
                if not self._minutes or self._minutes[-1][0] != minute:
                    self._minutes.append((minute, Counter()))
                self._minutes[-1][1].update(name.decode("utf-8", "replace") for name in names)

    def count(self) -> dict[str, int]:
        self.collect()
        oldest = (time.time() - _FAILURES_SECONDS) // 60
        with self._lock:
            while self._minutes and self._minutes[0][0] < oldest:
                self._minutes.popleft()
            total: Counter[str] = Counter()
            for _, counts in self._minutes:
                total.update(counts)
        return dict(total)
