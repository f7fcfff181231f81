"""A shielded coroutine runs to its end, and a cancellation meanwhile is raised after it."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from control_domain.database.errors import DatabaseUnavailable
from deployer.leases import Lease
from deployer.retry_while_leased import retry_while_leased
from deployer.shield import shield


async def _count_attempts(run: Callable[[Callable[[], Awaitable[None]]], Awaitable[None]]) -> int:
    """Cancel `run` during its first attempt, which fails; return the number of attempts."""
    begun, may_fail, attempts = asyncio.Event(), asyncio.Event(), 0

    async def attempt() -> None:
        nonlocal attempts
        attempts += 1
        begun.set()
        await may_fail.wait()
        raise DatabaseUnavailable("a moment without the database")

    async def shielded_attempt() -> None:
        await shield(attempt())

    task = asyncio.ensure_future(run(shielded_attempt))
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    may_fail.set()
    await asyncio.wait({task}, timeout=30)
    assert task.cancelled()
    return attempts


async def test_a_cancellation_replaces_the_exception_of_the_coroutine() -> None:
    async def run_once(attempt: Callable[[], Awaitable[None]]) -> None:
        await attempt()

    assert await _count_attempts(run_once) == 1


async def test_a_call_that_is_cancelled_during_a_failing_attempt_is_not_retried() -> None:
    async def retry(attempt: Callable[[], Awaitable[None]]) -> None:
        await retry_while_leased(Lease(1, "holder", 1), attempt)

    assert await _count_attempts(retry) == 1


async def test_an_exception_is_raised_unless_the_call_is_cancelled() -> None:
    async def fail() -> None:
        raise ValueError("it failed")

    with pytest.raises(ValueError, match="it failed"):
        await shield(fail())
