"""Shields coroutines from cancellation."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from storage_backends.end_task import end_task

P = ParamSpec("P")
T = TypeVar("T")


async def shield(coroutine: Coroutine[Any, Any, T]) -> T:
    """Await the coroutine to its end, even if the caller is cancelled. Then raise the cancellation instead of the
    coroutine's own exception."""
    task = asyncio.ensure_future(coroutine)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as cancellation:
            cancelled = cancellation
    if cancelled is not None:
        # If the coroutine's exception were raised, a caller that retries after it would never end.
        raise cancelled from None if task.cancelled() else task.exception()
    return task.result()


def shielded(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Shield each call of the function.

    For transactions: a cancelled commit may have succeeded or not, and its connection is lost.
    """

    @wraps(function)
    async def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return await shield(function(*args, **kwargs))

    return run


@shielded
async def end_tasks(*tasks: "asyncio.Task[Any]") -> None:
    """Cancel the tasks, and wait until all have ended. Their exceptions are dropped."""
    for task in tasks:
        task.cancel()
    for task in tasks:
        await end_task(task)
