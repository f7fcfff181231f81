"""Work that is carried out whatever is cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def carry_out(work: Coroutine[Any, Any, T]) -> T:
    """Await the work to its end; a cancellation meanwhile is raised only then, before what the work raises."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as cancellation:
            cancelled = cancellation
    if cancelled is not None:
        # Who retries what has failed would never learn that it is to end.
        raise cancelled from None if task.cancelled() else task.exception()
    return task.result()
