"""Limits the examinations of each environment to one at a time, with pauses."""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

_PAUSE_FACTOR = 4.0
_PAUSE_MAX_SECONDS = 5.0
_MAX_IDLE_ENTRIES = 1000


@dataclass(slots=True)
class Usage:
    """How much an environment uses the examination threads."""

    cost_seconds: float = 0.0
    """The CPU time of the current examination in seconds. The caller of `admit` sets it."""
    free_at: float = 0.0
    """When the pause after the last examination ends, in the loop's time."""
    waiters: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class ExaminationThrottle:
    """Admits one examination at a time for each environment. For one event loop."""

    def __init__(self) -> None:
        self._usages: dict[Hashable, Usage] = {}

    @asynccontextmanager
    async def admit(self, environment: Hashable) -> AsyncIterator[Usage]:
        """Wait until no other examination of the environment runs and its pause is over.

        The pause is four times the CPU time of the last examination, so an environment uses at most a fifth of one
        thread.
        """
        clock = asyncio.get_running_loop().time
        if len(self._usages) > _MAX_IDLE_ENTRIES:
            self._usages = {
                key: usage for key, usage in self._usages.items() if usage.waiters or usage.free_at > clock()
            }
        usage = self._usages.setdefault(environment, Usage())
        usage.waiters += 1
        try:
            async with usage.lock:
                await asyncio.sleep(max(0.0, usage.free_at - clock()))
                usage.cost_seconds = 0.0
                try:
                    yield usage
                finally:
                    usage.free_at = clock() + min(_PAUSE_FACTOR * usage.cost_seconds, _PAUSE_MAX_SECONDS)
        finally:
            usage.waiters -= 1
