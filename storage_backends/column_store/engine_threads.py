"""Runs queries in threads, so that a caller that is cancelled never leaves one behind."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


async def run_to_end(pool: ThreadPoolExecutor, run: Callable[[], T]) -> T:
    """Run `run` in a thread of the pool, and return what it returns.

    A call that is cancelled drops `run` if no thread has begun it, and otherwise returns only when the thread has
    ended: the engines cannot cancel a query, and whoever bounds the number of queries must count the running ones.
    """
    begun = pool.submit(run)
    ended = asyncio.wrap_future(begun)
    try:
        return await asyncio.shield(ended)
    except asyncio.CancelledError:
        if not begun.cancel():
            await _wait_uncancelled(ended)
        raise


async def _wait_uncancelled(ended: asyncio.Future[T]) -> None:
    while not ended.done():
        try:
            await asyncio.wait({ended})
        except asyncio.CancelledError:
            # The caller is cancelled already, and raises that when the thread has ended.
            continue
    # Retrieved, so that asyncio logs nothing: nobody waits for the outcome any more.
    ended.exception()
