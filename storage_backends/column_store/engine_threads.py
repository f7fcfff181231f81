"""Runs queries in threads, so that a cancelled caller never leaves one running."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


async def run_shielded(pool: ThreadPoolExecutor, run: Callable[[], T]) -> T:
    """Run `run` in a thread of the pool, and return its result.

    A cancelled call drops `run` if no thread has started it, and otherwise returns only when the thread has ended: the
    engines cannot cancel a query, and limits on the number of queries must count the running ones.
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
            # The caller is already cancelled, and raises that when the thread has ended.
            continue
    # Retrieved so that asyncio logs nothing: no caller waits for the result any more.
    ended.exception()
