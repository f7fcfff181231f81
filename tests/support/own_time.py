"""Time as this process has had it: for what must not take longer than so long."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

_TICK_SECONDS = 0.02


@contextlib.asynccontextmanager
async def own_time() -> AsyncIterator[Callable[[], float]]:
    """Gives how many seconds the loop has had by now: where the machine stood still these are fewer than a clock says,
    and never more."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            ticks += 1

    ticking = asyncio.create_task(tick())
    try:
        yield lambda: ticks * _TICK_SECONDS
    finally:
        ticking.cancel()
        await asyncio.wait([ticking])
