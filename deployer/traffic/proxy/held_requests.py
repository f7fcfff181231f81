"""The requests of one environment that wait for a target, and the retries that are made for all of them together."""

import asyncio
from collections import OrderedDict

# Nothing tells when a target takes connections again, or when its new listener has been examined.
_FIRST_PAUSE_SECONDS = 0.05
_LONGEST_PAUSE_SECONDS = 0.4
_WOKEN_PER_SUCCESS = 2


class HeldRequests:
    """A queue, oldest request first. A woken request retries by itself, and waits again if it is refused.

    While targets refuse, one request is woken at a time, with a growing pause in between: the connections that are
    tried do not grow with the requests that wait. Each success wakes two more, so the queue empties in a few rounds,
    but stops where a target takes a single connection and refuses the next one.
    """

    __slots__ = ("_pause", "_retry", "_waiting")

    def __init__(self) -> None:
        self._waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()
        self._retry: asyncio.TimerHandle | None = None
        self._pause = _FIRST_PAUSE_SECONDS

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def are_retried(self) -> bool:
        """Whether targets refuse, so that a request that has just come is to wait for its turn."""
        return self._retry is not None and bool(self._waiting)

    async def wait(self, seconds: float, *, is_retried: bool) -> bool:
        """Wait to be woken, with `is_retried` by a retry too. False if the request was not woken within `seconds`."""
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
        """Wake all, because the route has changed."""
        self._end_retries()
        self._wake(len(self._waiting))

    def wake_after_success(self) -> None:
        """Wake the next ones, because a target has taken a connection."""
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
        # Also where the woken request never tries, because its caller has left.
        if self._waiting:
            self._schedule_retry()

    def _wake(self, count: int) -> None:
        while count and self._waiting:
            woken, _ = self._waiting.popitem(last=False)
            # Done: its caller has left just now.
            if not woken.done():
                woken.set_result(None)
                count -= 1
