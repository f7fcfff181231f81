"""Ends background tasks reliably."""

import asyncio
from collections.abc import Coroutine
from typing import Any

_RETRY_SECONDS = 0.5


async def end_task(task: "asyncio.Task[Any]") -> None:
    """Cancel the task repeatedly until it has ended; ignore its exception.

    One cancellation is not enough: a client library may mistake it for its own timeout.
    """
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=_RETRY_SECONDS)
    if not task.cancelled():
        task.exception()


async def close_within(seconds: float, closing: Coroutine[Any, Any, Any]) -> None:
    """Run `closing` for at most `seconds`, and ignore its exception. Closing a client may hang while its engine is
    unavailable."""
    task = asyncio.ensure_future(closing)
    try:
        await asyncio.wait({task}, timeout=seconds)
    finally:
        await end_task(task)
