"""A task that swallows a cancellation is ended nevertheless."""

import asyncio

from storage_backends.end_task import end_task


async def test_a_task_that_mistakes_a_cancellation_for_its_timeout_is_ended() -> None:
    swallowed = 0

    async def swallow_cancellation() -> None:
        nonlocal swallowed
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                swallowed += 1
                if swallowed == 2:
                    raise

    task = asyncio.create_task(swallow_cancellation())
    await asyncio.sleep(0)
    await asyncio.wait_for(end_task(task), 60)
    assert task.cancelled() and swallowed == 2


async def test_the_exception_of_a_failed_task_is_ignored() -> None:
    async def fails() -> None:
        raise ValueError

    task = asyncio.create_task(fails())
    await asyncio.sleep(0)
    await end_task(task)
    assert task.done()
