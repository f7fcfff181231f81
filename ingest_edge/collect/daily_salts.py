"""The salts that a request needs, kept by the edge for as long as they live."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from pipeline_contracts.errors import StorageUnavailable, Unavailable
from pipeline_contracts.times import DAY_MS
from storage_backends.end_task import end_task
from storage_backends.salts.interface import LIFETIME_MS, Salts

_AHEAD_MS = 5 * 60_000
# So often an edge makes sure that it has the same ones as the others: Redis may have been emptied meanwhile.
_COMPARE_MS = 30_000
_FORGET_SECONDS = 60.0


class DailySalts:
    """Salts by day, asked for once and compared now and then."""

    def __init__(self, salts: Salts) -> None:
        self._salts = salts
        self._kept: dict[int, bytes] = {}
        self._asking = asyncio.Lock()
        self._compare_at_ms = 0

    async def around(self, now_ms: int) -> dict[int, bytes]:
        """The salts of the days on which an event may lie that is received now: today's, yesterday's, and shortly
        before midnight (UTC) tomorrow's. Raises `Unavailable` where one is missing and cannot be asked for."""
        needed = range(now_ms // DAY_MS - 1, (now_ms + _AHEAD_MS) // DAY_MS + 1)
        if min(self._kept, default=needed.start) < needed.start:
            with contextlib.suppress(StorageUnavailable):
                await self.forget(now_ms)
        if not self._has(needed):
            # All requests of a new day wait for its salt: none may go on without.
            async with self._asking:
                if not self._has(needed):
                    await self._compare(needed, now_ms)
        elif now_ms >= self._compare_at_ms:
            await self._compare(needed, now_ms)
        return self._kept

    async def forget(self, now_ms: int) -> None:
        """Delete what has outlived its 48 h, here and in the engine. Raises `StorageUnavailable`."""
        self._kept = self._live(now_ms)
        await self._salts.delete_expired(now_ms)

    @asynccontextmanager
    async def forgetting(
        self, clock: Callable[[], int], every: float = _FORGET_SECONDS
    ) -> AsyncIterator[None]:
        """Forgets in time, also while nobody sends anything."""

        async def keep_forgetting() -> None:
            while True:
                with contextlib.suppress(StorageUnavailable):
                    await self.forget(clock())
                await asyncio.sleep(every)

        task = asyncio.create_task(keep_forgetting(), name="old salts")
        try:
            yield
        finally:
            await end_task(task)

    def _live(self, now_ms: int) -> dict[int, bytes]:
        return {day: salt for day, salt in self._kept.items() if day * DAY_MS + LIFETIME_MS > now_ms}

    def _has(self, needed: range) -> bool:
        return all(day in self._kept for day in needed)

    async def _compare(self, needed: range, now_ms: int) -> None:
        # Before the wait: the requests beside this one go on with what is there.
        self._compare_at_ms = now_ms + _COMPARE_MS
        kept = {day: salt for day, salt in self._kept.items() if day in needed}
        try:
            for day in needed:
                salt = await self._salts.find_or_create(day, now_ms, kept.get(day))
                if salt is not None:
                    kept[day] = salt
            await self._salts.delete_expired(now_ms)
        except StorageUnavailable as error:
            if not all(day in kept for day in needed):
                raise Unavailable("Visitors cannot be told apart now.") from error
        self._kept = kept
