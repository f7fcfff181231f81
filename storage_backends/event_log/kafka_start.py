"""Starts clients of aiokafka so that giving up leaves nothing open."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from storage_backends.end_task import close_within

_STOP_SECONDS = 1.0
_given_up: set[asyncio.Task[None]] = set()


async def start_client(
    start: Callable[[], Coroutine[Any, Any, None]],
    stop: Callable[[], Coroutine[Any, Any, None]],
    seconds: float | None = None,
) -> None:
    """Start a client, within so many seconds; one that did not start is stopped. Raises what `start` raises, and
    TimeoutError.

    aiokafka never closes the connection over which it asks for the cluster's metadata when it is cancelled in that.
    A start that is given up goes on by itself, for as long as its requests may take, and then is stopped.
    """
    starting = asyncio.ensure_future(start())
    try:
        async with asyncio.timeout(seconds):
            await asyncio.shield(starting)
    except BaseException:
        stopping = asyncio.ensure_future(_stop(starting, stop))
        if starting.done():
            await stopping
        else:
            _given_up.add(stopping)
            stopping.add_done_callback(_given_up.discard)
        raise


async def _stop(starting: Awaitable[None], stop: Callable[[], Coroutine[Any, Any, None]]) -> None:
    # Also where the loop ends before it: that cancels both.
    try:
        with contextlib.suppress(Exception):
            await starting
    finally:
        await close_within(_STOP_SECONDS, stop())
