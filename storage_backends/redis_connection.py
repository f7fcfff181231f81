"""A connection to Redis that fails fast: while Redis is away nobody waits for it but one, now and then."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from pipeline_contracts.errors import StorageUnavailable

logger = logging.getLogger(__name__)

T = TypeVar("T")

_CALL_SECONDS = 0.25
_PAUSE_SECONDS = 0.5
# Calls at once. The client's pool raises for the 101st connection, which would pass for a Redis that is away.
_MOST_CALLS = 32


def new_client(url: str, seconds: float) -> Redis:
    """A client whose answers take `seconds` at most. A call is tried once more where its connection turns out to
    be dead, as all idle ones are after Redis was restarted: one that hangs takes twice as long."""
    return Redis.from_url(
        url,
        socket_timeout=seconds,
        socket_connect_timeout=seconds,
        socket_keepalive=True,
        retry=Retry(NoBackoff(), 1),
        protocol=3,
    )


class RedisConnection:
    """Runs calls, some at once; after one that failed all fail at once for a moment, then one may try."""

    def __init__(
        self, url: str, clock: Callable[[], float] = time.monotonic, *, seconds: float | None = None
    ) -> None:
        """`seconds`: how long an answer may take, where whoever calls may be kept waiting."""
        self.client = new_client(url, _CALL_SECONDS if seconds is None else seconds)
        self._clock = clock
        self._turns = asyncio.Semaphore(_MOST_CALLS)
        self._away_until = 0.0
        self.away = False

    async def call(self, run: Callable[[Redis], Awaitable[T]]) -> T:
        """The result of `run`. Raises `StorageUnavailable`."""
        self._refuse_while_away()
        async with self._turns:
            # Again: it may have gone while this call waited for its turn.
            self._refuse_while_away()
            if self.away:
                # The others go on failing at once while this one tries.
                self._away_until = self._clock() + _PAUSE_SECONDS
            return await self._run(run)

    def _refuse_while_away(self) -> None:
        if self.away and self._clock() < self._away_until:
            raise StorageUnavailable("Redis is away.")

    async def _run(self, run: Callable[[Redis], Awaitable[T]]) -> T:
        try:
            result = await run(self.client)
        except (RedisError, OSError, TimeoutError) as error:
            if not self.away:
                logger.warning("Redis is away: %r", error)
            self.away = True
            self._away_until = self._clock() + _PAUSE_SECONDS
            raise StorageUnavailable("Redis is away.") from error
        if self.away:
            logger.info("Redis is back")
            self.away = False
        return result

    async def close(self) -> None:
        """Close its sockets."""
        await self.client.aclose()
