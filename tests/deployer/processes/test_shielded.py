"""Work that is carried out to its end: a cancellation meanwhile is never lost."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from control_domain.database.errors import DatabaseAway
from deployer.leases import Lease
from deployer.processes.shielded import carry_out
from deployer.retry_while_leased import retry_while_leased


async def _cancelled_within(run: Callable[[Callable[[], Awaitable[None]]], Awaitable[None]]) -> int:
    """Cancel what `run` makes of an attempt that fails; gives how many attempts it made."""
    begun, goes_on, attempts = asyncio.Event(), asyncio.Event(), 0

    async def attempt() -> None:
        nonlocal attempts
        attempts += 1
        begun.set()
        await goes_on.wait()
        raise DatabaseAway("a moment without the database")

    async def shielded() -> None:
        await carry_out(attempt())

    task = asyncio.ensure_future(run(shielded))
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    goes_on.set()
    await asyncio.wait({task}, timeout=30)
    assert task.cancelled()
    return attempts


async def test_a_cancellation_comes_before_what_the_work_raises() -> None:
    async def once(shielded: Callable[[], Awaitable[None]]) -> None:
        await shielded()

    assert await _cancelled_within(once) == 1


async def test_what_is_cancelled_while_an_attempt_fails_is_not_tried_again() -> None:
    async def retried(shielded: Callable[[], Awaitable[None]]) -> None:
        await retry_while_leased(Lease(1, "holder", 1), shielded)

    assert await _cancelled_within(retried) == 1


async def test_what_the_work_raises_is_raised_where_nothing_is_cancelled() -> None:
    async def work() -> None:
        raise ValueError("it failed")

    with pytest.raises(ValueError, match="it failed"):
        await carry_out(work())
