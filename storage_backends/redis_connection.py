"""A connection to Redis that fails fast: while Redis is unavailable, only one call at a time tries to reach it."""

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
# Less than the limit of the client's connection pool, which raises an error for the 101st connection. That would
# look like an unavailable Redis.
_MAX_CONCURRENT_CALLS = 32


def new_client(url: str, seconds: float) -> Redis:
    """Return a client that waits at most `seconds` for a response. It repeats a call once on a dead connection,
    because a restart of Redis leaves all idle connections dead. So a call may take twice `seconds`."""
    return Redis.from_url(
        url,
        socket_timeout=seconds,
        socket_connect_timeout=seconds,
        socket_keepalive=True,
        retry=Retry(NoBackoff(), 1),
        protocol=3,
    )


class RedisConnection:
    """Runs calls concurrently. After a failure, all calls fail immediately for a moment. Then one call may try
    again."""

    def __init__(
        self, url: str, clock: Callable[[], float] = time.monotonic, *, seconds: float | None = None
    ) -> None:
        """`seconds`: how long to wait for a response, for callers that can wait longer than the default."""
        self.client = new_client(url, _CALL_SECONDS if seconds is None else seconds)
        self._clock = clock
        self._call_slots = asyncio.Semaphore(_MAX_CONCURRENT_CALLS)
        self._away_until = 0.0
        self.is_away = False

    async def call(self, run: Callable[[Redis], Awaitable[T]]) -> T:
        """Call `run` with the client and return its result. Raises `StorageUnavailable`."""
        self._fail_while_away()
        async with self._call_slots:
            # Check again: Redis may have failed while this call waited for a free connection.
            self._fail_while_away()
            if self.is_away:
                # All other calls keep failing immediately while this call tries.
                self._away_until = self._clock() + _PAUSE_SECONDS
            return await self._run(run)

    def _fail_while_away(self) -> None:
        if self.is_away and self._clock() < self._away_until:
            raise StorageUnavailable("Redis is away.")

    async def _run(self, run: Callable[[Redis], Awaitable[T]]) -> T:
        try:
            result = await run(self.client)
        except (RedisError, OSError, TimeoutError) as error:
            if not self.is_away:
                logger.warning("Redis is away: %r", error)
            self.is_away = True
            self._away_until = self._clock() + _PAUSE_SECONDS
            raise StorageUnavailable("Redis is away.") from error
        if self.is_away:
            logger.info("Redis is back")
            self.is_away = False
        return result

    async def close(self) -> None:
        await self.client.aclose()
