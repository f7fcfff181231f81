"""Makes few reports at once, in turn between accounts, and none for a caller that has left."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect

from control_api.fair_queue import FairQueue, QueueFull, QueueLimits, WaitedTooLong
from pipeline_contracts.errors import TooManyRequests, Unavailable

T = TypeVar("T")

_WAITING = 64
_WAITING_OF_ACCOUNT = 16
_WAIT_SECONDS = 10.0
_AGAIN_SECONDS = 5


def report_limits(at_once: int) -> QueueLimits:
    """The limits of a process that makes so many reports at once. One account gets half of them, so that a report of
    another account always finds a place within the time of one report."""
    return QueueLimits(at_once, max(1, at_once // 2), _WAITING, _WAITING_OF_ACCOUNT, _WAIT_SECONDS)


REPORT_LIMITS = report_limits(2)


async def make_in_turn(request: Request, account_id: int, make: Callable[[], Awaitable[T]]) -> T:
    """Return what `make` gives, once it is the account's turn.

    Raises `TooManyRequests`, `Unavailable`, what `make` raises, and `ClientDisconnect` once the caller has left; then
    nothing more is asked for the report.
    """
    working = asyncio.ensure_future(_in_turn(request.app.state.report_queue, f"account {account_id}", make))
    leaving = asyncio.create_task(_caller_leaves(request), name="caller of a report")
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientDisconnect
    finally:
        leaving.cancel()
        working.cancel()
        await asyncio.gather(leaving, working, return_exceptions=True)


async def _in_turn(queue: FairQueue, key: str, make: Callable[[], Awaitable[T]]) -> T:
    try:
        await queue.enter(key)
    except QueueFull as error:
        raise TooManyRequests(
            f"{queue.limits.waiting_each} reports of the account wait already, or {queue.limits.waiting} of all. "
            f"Ask again in {_AGAIN_SECONDS} s, for fewer at once.",
            headers={"Retry-After": str(_AGAIN_SECONDS)},
        ) from error
    except WaitedTooLong as error:
        raise Unavailable(
            f"The report has waited for {queue.limits.wait_seconds:g} s while others were made. Ask again.",
            retry_after=_AGAIN_SECONDS,
        ) from error
    try:
        return await make()
    finally:
        queue.leave(key)


async def _caller_leaves(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
