"""Work that is carried out whatever is cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def carry_out(work: Coroutine[Any, Any, T]) -> T:
    """Await the work to its end; a cancellation meanwhile is raised only then. What the work raises comes first."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as cancellation:
            cancelled = cancellation
    result = task.result()
    if cancelled is not None:
        raise cancelled
    return result
