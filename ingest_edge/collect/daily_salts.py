"""Cache the salts of visitor hashes in the edge, until they expire."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from pipeline_contracts.errors import StorageUnavailable, Unavailable
from pipeline_contracts.times import DAY_MS
from storage_backends.end_task import end_task
from storage_backends.salts.interface import LIFETIME_MS, Salts

_AHEAD_MS = 5 * 60_000
# Interval at which an edge compares its salts with the shared ones: Redis may have lost its data meanwhile.
_COMPARE_MS = 30_000
_DELETE_SECONDS = 60.0


class DailySalts:
    """Salts by day, cached and periodically compared with the shared ones."""

    def __init__(self, salts: Salts) -> None:
        self._salts = salts
        self._cached: dict[int, bytes] = {}
        self._lock = asyncio.Lock()
        self._compare_at_ms = 0

    async def get(self, now_ms: int) -> dict[int, bytes]:
        """Return the salts of the days on which an event that is received now may have occurred.

        These are today's and yesterday's, and shortly before midnight (UTC) tomorrow's. Raises `Unavailable` if one is
        neither cached nor available.
        """
        needed = range(now_ms // DAY_MS - 1, (now_ms + _AHEAD_MS) // DAY_MS + 1)
        if min(self._cached, default=needed.start) < needed.start:
            with contextlib.suppress(StorageUnavailable):
                await self.delete_expired(now_ms)
        if not self._has(needed):
            # All requests of a new day wait for its salt: none can be stored without it.
            async with self._lock:
                if not self._has(needed):
                    await self._compare(needed, now_ms)
        elif now_ms >= self._compare_at_ms:
            await self._compare(needed, now_ms)
        return self._cached

    async def delete_expired(self, now_ms: int) -> None:
        """Delete salts older than 48 h, here and in the engine. Raises `StorageUnavailable`."""
        self._cached = self._unexpired(now_ms)
        await self._salts.delete_expired(now_ms)

    @asynccontextmanager
    async def delete_periodically(
        self, clock: Callable[[], int], every: float = _DELETE_SECONDS
    ) -> AsyncIterator[None]:
        """Delete expired salts every few seconds, even while there is no traffic."""

        async def delete_forever() -> None:
            while True:
                with contextlib.suppress(StorageUnavailable):
                    await self.delete_expired(clock())
                await asyncio.sleep(every)

        task = asyncio.create_task(delete_forever(), name="old salts")
        try:
            yield
        finally:
            await end_task(task)

    def _unexpired(self, now_ms: int) -> dict[int, bytes]:
        return {day: salt for day, salt in self._cached.items() if day * DAY_MS + LIFETIME_MS > now_ms}

    def _has(self, needed: range) -> bool:
        return all(day in self._cached for day in needed)

    async def _compare(self, needed: range, now_ms: int) -> None:
        # Set before the wait, so that concurrent requests use the cached salts.
        self._compare_at_ms = now_ms + _COMPARE_MS
        salts = {day: salt for day, salt in self._cached.items() if day in needed}
        try:
            for day in needed:
                salt = await self._salts.find_or_create(day, now_ms, salts.get(day))
                if salt is not None:
                    salts[day] = salt
            await self._salts.delete_expired(now_ms)
        except StorageUnavailable as error:
            if not all(day in salts for day in needed):
                raise Unavailable("Visitors cannot be distinguished now.") from error
        self._cached = salts
