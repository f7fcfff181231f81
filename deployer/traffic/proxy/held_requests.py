"""Holds the requests of one environment that wait for a target. They retry in turns."""

import asyncio
from collections import OrderedDict

# No event reports that a target accepts connections again, or that a new listener was checked. So the queue retries
# after a pause.
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 0.4
_WOKEN_PER_SUCCESS = 2


class HeldRequests:
    """A queue, oldest request first. A woken request retries, and waits again if the target refuses it.

    While targets refuse, the queue wakes one request at a time, with a growing pause in between, so the number of
    attempts does not grow with the number of waiting requests. Each success wakes two more requests: the queue empties
    in a few rounds, but stops if a target accepts a single connection and refuses the next one.
    """

    __slots__ = ("_pause", "_retry", "_waiting")

    def __init__(self) -> None:
        self._waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()
        self._retry: asyncio.TimerHandle | None = None
        self._pause = _FIRST_PAUSE_SECONDS

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_retrying(self) -> bool:
        """True while targets refuse: a new request then waits for its turn."""
        return self._retry is not None and bool(self._waiting)

    async def wait(self, seconds: float, *, is_retried: bool) -> bool:
        """Wait until the request is woken by a change of the route, or with `is_retried` also for a retry. Return
        False if `seconds` pass first."""
        woken = asyncio.get_running_loop().create_future()
        self._waiting[woken] = None
        if is_retried:
            self._schedule_retry()
        try:
            async with asyncio.timeout(seconds):
                await woken
        except TimeoutError:
            return False
        finally:
            if woken in self._waiting:
                del self._waiting[woken]
                if not self._waiting:
                    self._end_retries()
        return True

    def wake_all(self) -> None:
        """Wake all requests after a change of the route."""
        self._end_retries()
        self._wake(len(self._waiting))

    def wake_after_success(self) -> None:
        """Wake the next requests after a target has accepted a connection."""
        self._pause = _FIRST_PAUSE_SECONDS
        if self._waiting:
            self._wake(_WOKEN_PER_SUCCESS)

    def _schedule_retry(self) -> None:
        if self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(self._pause, self._retry_one)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE_SECONDS)

    def _end_retries(self) -> None:
        self._pause = _FIRST_PAUSE_SECONDS
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def _retry_one(self) -> None:
        self._retry = None
        self._wake(1)
        # Wake the next request even if the woken one never retries because its caller has disconnected.
        if self._waiting:
            self._schedule_retry()

    def _wake(self, count: int) -> None:
        while count and self._waiting:
            woken, _ = self._waiting.popitem(last=False)
            # A future that is done belongs to a caller that has disconnected.
            if not woken.done():
                woken.set_result(None)
                count -= 1
