"""Runs queries in threads. A cancelled caller never leaves a query running."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


async def run_shielded(pool: ThreadPoolExecutor, run: Callable[[], T]) -> T:
    """Run `run` in a thread of the pool, and return its result.

    If the call is cancelled before a thread has started `run`, `run` is dropped. Otherwise the call returns only when
    `run` has ended: the engines cannot cancel a query, and limits on the number of queries must count the running
    ones.
    """
    future = pool.submit(run)
    ended = asyncio.wrap_future(future)
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        if not future.cancel():
            await _wait_uncancelled(ended)
        raise


async def _wait_uncancelled(ended: asyncio.Future[T]) -> None:
    while not ended.done():
        try:
            await asyncio.wait({ended})
        except asyncio.CancelledError:
            # The caller is already cancelled. The cancellation is raised when the thread has ended.
            continue
    # Retrieve the exception, so that asyncio does not log it: no caller waits for the result any more.
    ended.exception()
