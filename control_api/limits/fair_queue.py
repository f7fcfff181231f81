"""Runs a few pieces of work at a time, in turn between their keys (accounts, addresses), with bounded queues."""

import asyncio
from collections import Counter, deque
from dataclasses import dataclass


class QueueFull(Exception):
    """Too much waits already, of this key or of all."""


class WaitedTooLong(Exception):
    """The turn did not come in time."""


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """How much may run and wait at once, in all and of each key, and for how long."""

    running: int
    running_each: int
    waiting: int
    waiting_each: int
    wait_seconds: float
    reserve: int = 0
    """Places beyond `running`, for keys of which nothing runs: a few keys that run long never keep all others out."""


_Turn = asyncio.Future[None]


class FairQueue:
    """One queue for each key. A turn goes to the keys one after the other, to the oldest entry of each."""

    def __init__(self, limits: QueueLimits) -> None:
        self.limits = limits
        self._running: Counter[str] = Counter()
        self._all_running = 0
        # In the order in which keys get their turn. A key without entries is not in it.
        self._waiting: dict[str, deque[_Turn]] = {}
        self._all_waiting = 0

    @property
    def running(self) -> int:
        """How many run."""
        return self._all_running

    @property
    def waiting(self) -> int:
        """How many wait."""
        return self._all_waiting

    async def enter(self, key: str) -> None:
        """Wait for a turn; `leave` ends it. Raises `QueueFull` and `WaitedTooLong`."""
        if key not in self._waiting and self._may_run(key):
            self._start(key)
            return
        turn: _Turn = asyncio.get_running_loop().create_future()
        self._add(key, turn)
        try:
            async with asyncio.timeout(self.limits.wait_seconds):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                # The turn came together with the cancellation.
                self.leave(key)
            else:
                self._remove(key, turn)
            if isinstance(error, TimeoutError):
                raise WaitedTooLong from error
            raise

    def leave(self, key: str) -> None:
        """End a turn, and give it to whoever is next."""
        self._all_running -= 1
        self._running[key] -= 1
        if not self._running[key]:
            del self._running[key]
        while (following := self._next_key()) is not None:
            turn = self._waiting[following][0]
            self._remove(following, turn, to_the_end=True)
            if not turn.done():
                self._start(following)
                turn.set_result(None)

    def move(self, key: str, to: str) -> None:
        """Count a turn of `key` towards another key, which may have more than its share then until they end."""
        self._all_running += 1
        self._running[to] += 1
        self.leave(key)

    def _may_run(self, key: str) -> bool:
        own, limits = self._running[key], self.limits
        most = limits.running if own else limits.running + limits.reserve
        return own < limits.running_each and self._all_running < most

    def _start(self, key: str) -> None:
        self._all_running += 1
        self._running[key] += 1

    def _next_key(self) -> str | None:
        # Few are passed over: only so many keys can run all that they may.
        return next((key for key in self._waiting if self._may_run(key)), None)

    def _add(self, key: str, turn: _Turn) -> None:
        own = len(self._waiting.get(key, ()))
        if own >= self.limits.waiting_each:
            raise QueueFull
        if self._all_waiting >= self.limits.waiting:
            self._make_room(own)
        self._waiting.setdefault(key, deque()).append(turn)
        self._all_waiting += 1

    def _make_room(self, own: int) -> None:
        """Refuse the newest entry of the key with the most, so that a few keys never keep all others out."""
        longest = max(self._waiting, key=lambda key: len(self._waiting[key]))
        if len(self._waiting[longest]) <= own + 1:
            raise QueueFull
        newest = self._waiting[longest][-1]
        self._remove(longest, newest)
        if not newest.done():
            newest.set_exception(QueueFull())

    def _remove(self, key: str, turn: _Turn, *, to_the_end: bool = False) -> None:
        queue = self._waiting.get(key)
        if queue is None or turn not in queue:
            return
        queue.remove(turn)
        self._all_waiting -= 1
        if to_the_end or not queue:
            del self._waiting[key]
        if to_the_end and queue:
            self._waiting[key] = queue
