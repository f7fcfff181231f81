"""Runs a few tasks at a time, round-robin between their keys (accounts, addresses), with bounded waiting."""

import asyncio
from collections import Counter, deque
from dataclasses import dataclass


class QueueFull(Exception):
    """Too many tasks of this key, or of all keys together, wait already."""


class QueueTimeout(Exception):
    """The task waited for too long."""


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Limits of the tasks that run and wait at the same time, in total and for each key, and of the time that a task
    waits."""

    max_running: int
    max_running_per_key: int
    max_waiting: int
    max_waiting_per_key: int
    max_wait_seconds: float
    reserve: int = 0
    """Slots beyond `max_running` for keys without a running task: a few keys with long tasks never block all others."""


_Waiter = asyncio.Future[None]


class FairQueue:
    """A semaphore with one queue for each key. Free slots go to the keys in turn, to the oldest waiter of each."""

    def __init__(self, limits: QueueLimits) -> None:
        self.limits = limits
        self._running: Counter[str] = Counter()
        self._total_running = 0
        # Waiting tasks by key, in the order in which the keys get the next slots. Keys without waiters are removed.
        self._waiters: dict[str, deque[_Waiter]] = {}
        self._total_waiting = 0

    @property
    def running(self) -> int:
        """Number of tasks that run."""
        return self._total_running

    @property
    def waiting(self) -> int:
        """Number of tasks that wait."""
        return self._total_waiting

    async def acquire(self, key: str) -> None:
        """Wait for a slot; `release` frees it. Raises `QueueFull` and `QueueTimeout`."""
        if key not in self._waiters and self._may_run(key):
            self._start(key)
            return
        waiter: _Waiter = asyncio.get_running_loop().create_future()
        self._add(key, waiter)
        try:
            async with asyncio.timeout(self.limits.max_wait_seconds):
                await waiter
        except BaseException as error:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                # The slot was assigned in the same moment as the cancellation.
                self.release(key)
            else:
                self._remove(key, waiter)
            if isinstance(error, TimeoutError):
                raise QueueTimeout from error
            raise

    def release(self, key: str) -> None:
        """Free a slot of `key`, and assign free slots to the next waiters."""
        self._total_running -= 1
        self._running[key] -= 1
        if not self._running[key]:
            del self._running[key]
        while (next_key := self._next_key()) is not None:
            waiter = self._waiters[next_key][0]
            self._remove(next_key, waiter, rotate=True)
            if not waiter.done():
                self._start(next_key)
                waiter.set_result(None)

    def move(self, key: str, to: str) -> None:
        """Count a slot of `key` towards the key `to`, which may exceed its share until its tasks end."""
        self._total_running += 1
        self._running[to] += 1
        self.release(key)

    def _may_run(self, key: str) -> bool:
        running, limits = self._running[key], self.limits
        max_total = limits.max_running if running else limits.max_running + limits.reserve
        return running < limits.max_running_per_key and self._total_running < max_total

    def _start(self, key: str) -> None:
        self._total_running += 1
        self._running[key] += 1

    def _next_key(self) -> str | None:
        # This skips few keys: only a few can run as many tasks as they may.
        return next((key for key in self._waiters if self._may_run(key)), None)

    def _add(self, key: str, waiter: _Waiter) -> None:
        waiting = len(self._waiters.get(key, ()))
        if waiting >= self.limits.max_waiting_per_key:
            raise QueueFull
        if self._total_waiting >= self.limits.max_waiting:
            self._evict_newest(waiting)
        self._waiters.setdefault(key, deque()).append(waiter)
        self._total_waiting += 1

    def _evict_newest(self, waiting: int) -> None:
        """Refuse the newest waiter of the key with the most waiters, so that a few keys never block all others. Raises
        `QueueFull` if no key has more than `waiting` + 1 waiters."""
        longest = max(self._waiters, key=lambda key: len(self._waiters[key]))
        if len(self._waiters[longest]) <= waiting + 1:
            raise QueueFull
        newest = self._waiters[longest][-1]
        self._remove(longest, newest)
        if not newest.done():
            newest.set_exception(QueueFull())

    def _remove(self, key: str, waiter: _Waiter, *, rotate: bool = False) -> None:
        """Remove a waiter; `rotate` moves its key to the end of the order."""
        queue = self._waiters.get(key)
        if queue is None or waiter not in queue:
            return
        queue.remove(waiter)
        self._total_waiting -= 1
        if rotate or not queue:
            del self._waiters[key]
        if rotate and queue:
            self._waiters[key] = queue
