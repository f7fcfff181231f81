"""A short-lived cache of answers that many callers request at once: one request makes the answer, and the others
wait."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from pipeline_contracts.errors import Unavailable

T = TypeVar("T")

_KEPT_SECONDS = 30.0
# An answer takes up to a megabyte.
_MOST = 32
_MAX_WAIT_SECONDS = 20.0


class KeptAnswers:
    """The answers of a process by key. Callers check their right to an answer first."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._answers: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()
        self._making: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    async def find_or_make(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        """Return the answer with this key that is younger than 30 s, or make it.

        The errors of `make` are raised to the request that called it; the next request tries again. Raises
        `Unavailable` after waiting 20 s for another request.
        """
        # Requests that wait keep a reference to it.
        lock = self._making.setdefault(key, asyncio.Lock())
        try:
            async with asyncio.timeout(_MAX_WAIT_SECONDS):
                await lock.acquire()
        except TimeoutError as error:
            raise Unavailable(
                "The report is taking long now. Send the request again.", retry_after=5
            ) from error
        try:
            until, answer = self._answers.get(key, (0.0, None))
            if self._monotonic() < until:
                found: T = answer
                return found
            made = await make()
            self._answers[key] = self._monotonic() + _KEPT_SECONDS, made
            self._answers.move_to_end(key)
            if len(self._answers) > _MOST:
                self._answers.popitem(last=False)
            return made
        finally:
            lock.release()
