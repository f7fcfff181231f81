"""Makes few reports at once, in turn between accounts, and none for a caller that has left."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect

from control_api.limits.fair_queue import FairQueue, QueueFull, QueueLimits, WaitedTooLong
from pipeline_contracts.errors import TooManyRequests, Unavailable

T = TypeVar("T")

# Reports whose callers have left, until the query that runs for each has ended. The event loop keeps no task alive.
_ending: set[asyncio.Task[Any]] = set()

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

    Raises `TooManyRequests`, `Unavailable`, what `make` raises, and `ClientDisconnect` once the caller has left. Then
    `make` is cancelled, and the account gets its turn back when `make` has ended: a query that the column store has
    begun cannot be stopped.
    """
    in_turn = _in_turn(request.app.state.report_queue, f"account {account_id}", make)
    working = asyncio.create_task(in_turn, name="report")
    leaving = asyncio.create_task(_caller_leaves(request), name="caller of a report")
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise ClientDisconnect
    finally:
        leaving.cancel()
        if not working.done():
            _ending.add(working)
            working.add_done_callback(_forget_ended)
            working.cancel()
        await asyncio.gather(leaving, return_exceptions=True)


def _forget_ended(report: "asyncio.Task[Any]") -> None:
    _ending.discard(report)
    if not report.cancelled():
        # Looked at, so that nothing is logged: nobody waits for the report or its fault any more.
        report.exception()


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
