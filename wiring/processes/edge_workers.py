"""Runs several edge processes on one port: each binds the port, and the kernel distributes the connections."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from types import FrameType

logger = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS = 0.5
_MAX_PAUSE_SECONDS = 10.0
_STABLE_SECONDS = 30.0
# Longer than an edge takes to drain.
_STOP_SECONDS = 28.0


def run_edge_workers(count: int, host: str, port: int) -> int:
    """Run `count` edges until SIGTERM or SIGINT, and restart those that end by themselves. Returns the exit status: 0,
    or the status of the first edge that refused its settings."""
    stop = threading.Event()

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    workers = [_Worker(index, host, port) for index in range(count)]
    while not stop.wait(0.1):
        for worker in workers:
            worker.keep_running()
            if worker.refused_status is not None:
                logger.error("edge worker %d cannot start", worker.index)
                stop.set()
    for worker in workers:
        worker.terminate()
    deadline = time.monotonic() + _STOP_SECONDS
    for worker in workers:
        worker.wait_or_kill(max(0.1, deadline - time.monotonic()))
    return next((worker.refused_status for worker in workers if worker.refused_status is not None), 0)


class _Worker:
    """One edge process, restarted with exponential backoff."""

    def __init__(self, index: int, host: str, port: int) -> None:
        self.index = index
        self.refused_status: int | None = None
        self._command = [
            *(sys.executable, "-m", "operator_cli.main", "edge"),
            # Each worker has its own metrics: its number is the offset of its /metrics port.
            *("--host", host, "--port", str(port), "--shared-port", "--worker", str(index)),
        ]
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._start_at = 0.0
        self._pause = _FIRST_PAUSE_SECONDS

    def keep_running(self) -> None:
        now = time.monotonic()
        if self._process is not None:
            status = self._process.poll()
            if status is None:
                return
            self._process = None
            if status == 2:
                # Bad settings: a restart would fail too.
                self.refused_status = status
                return
            self._pause = (
                _FIRST_PAUSE_SECONDS
                if now - self._started > _STABLE_SECONDS
                else min(2 * self._pause, _MAX_PAUSE_SECONDS)
            )
            self._start_at = now + self._pause
            logger.warning(
                "edge worker %d ended with status %d; restarting in %.1f s", self.index, status, self._pause
            )
        if now >= self._start_at:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                # A worker must not start workers itself.
                env={**os.environ, "PHAROS_EDGE_WORKERS": "1"},
                # Ctrl-C must reach only this process, which then stops the workers in order.
                start_new_session=True,
            )
            self._started = now

    def terminate(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def wait_or_kill(self, seconds: float) -> None:
        if self._process is None:
            return
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            logger.error("edge worker %d did not drain in time", self.index)
            self._process.kill()
            self._process.wait()
