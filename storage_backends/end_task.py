"""Ends a background task for certain."""

import asyncio
from collections.abc import Coroutine
from typing import Any

_AGAIN_SECONDS = 0.5


async def end_task(task: "asyncio.Task[Any]") -> None:
    """Cancel the task until it has ended; what it raises is dropped.

    Once is not enough: a client library that is just running into its own time-out may take the cancellation for it.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=_AGAIN_SECONDS)
    if not task.cancelled():
        task.exception()


async def close_within(seconds: float, closing: Coroutine[Any, Any, Any]) -> None:
    """Run what closes a client, for so many seconds at most: with its engine away it may wait for ever.

    What it raises is dropped.
    """
    task = asyncio.ensure_future(closing)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        await end_task(task)
