"""Wait for conditions of tests, and measure time that a busy machine does not count against them."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

_SYNC_PAUSE_SECONDS = 0.1
_PAUSE_SECONDS = 0.02
_LONGEST_CHECK_SECONDS = 0.1
_TICK_SECONDS = 0.02


def wait_until(
    condition: Callable[[], object], seconds: float = 90, describe: Callable[[], object] = lambda: ""
) -> None:
    """Block until the condition holds. Raises `AssertionError` with the text of `describe` after the time limit."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {describe()}"
        time.sleep(_SYNC_PAUSE_SECONDS)


def wait_within(
    seconds: float, condition: Callable[[], object], describe: Callable[[], object] = lambda: ""
) -> float:
    """Block until the condition holds; return the seconds that count. Raises `AssertionError` after `seconds` of them.

    A check counts as at most a tenth of a second: if it took longer, the machine was busy with other processes.
    """
    counted = 0.0
    before = time.monotonic()
    while not condition():
        assert counted < seconds, f"not within {seconds} s: {describe()}"
        time.sleep(_PAUSE_SECONDS)
        now = time.monotonic()
        counted += min(now - before, _LONGEST_CHECK_SECONDS)
        before = now
    return counted


async def poll_until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Wait until the condition holds. Raises `TimeoutError`."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


async def poll_until_equal(read: Callable[[], object], expected: object, seconds: float = 60) -> None:
    """Wait until `read` returns the expected value. Raises `AssertionError` with the last value."""
    ends_at = time.monotonic() + seconds
    while (found := read()) != expected and time.monotonic() < ends_at:
        await asyncio.sleep(0.05)
    assert found == expected, f"after {seconds} s: {found!r}, not {expected!r}"


async def wait_for_result(
    read: Callable[[], Awaitable[Any]], seconds: float = 60.0, pause_seconds: float = 0.03
) -> Any:
    """Return the first true value that `read` returns. Raises `TimeoutError`."""
    async with asyncio.timeout(seconds):
        while not (found := await read()):
            await asyncio.sleep(pause_seconds)
        return found


@contextlib.asynccontextmanager
async def measure_loop_time() -> AsyncIterator[Callable[[], float]]:
    """Yield a function that returns for how many seconds the event loop has run in this block.

    This is never more than a clock would say, and less if the process did not get the CPU meanwhile.
    """
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
