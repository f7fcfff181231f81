"""Runs a few reports at a time, round-robin between accounts, and cancels those whose callers have disconnected."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from fastapi import Request
from starlette.requests import ClientDisconnect

from analytics_queries.telemetry.limited_sql import share_time
from control_api.limits.fair_queue import FairQueue, QueueFull, QueueLimits, QueueTimeout
from pipeline_contracts.errors import TooManyRequests, Unavailable

T = TypeVar("T")

# Cancelled reports whose query has not ended yet. The event loop itself keeps only weak references to tasks.
_cancelled_reports: set[asyncio.Task[Any]] = set()

_MAX_WAITING = 64
_MAX_WAITING_PER_ACCOUNT = 16
_MAX_WAIT_SECONDS = 10.0
_RETRY_SECONDS = 5
# Limit of all limited queries of a report together, because requests that wait for the slot wait for these queries.
_QUERY_SECONDS = 25.0


def report_limits(max_concurrent: int) -> QueueLimits:
    """Return the queue limits of a process that runs `max_concurrent` reports at a time. One account gets half of the
    slots, rounded up: a page requests several reports at once, and a report of another account then waits for one
    report at most."""
    return QueueLimits(
        max_concurrent,
        (max_concurrent + 1) // 2,
        _MAX_WAITING,
        _MAX_WAITING_PER_ACCOUNT,
        _MAX_WAIT_SECONDS,
    )


DEFAULT_REPORT_LIMITS = report_limits(3)


async def run_queued_report(request: Request, owner: int | str, make: Callable[[], Awaitable[T]]) -> T:
    """Wait for a slot of `owner`, an account or a name, then return the result of `make`, whose limited queries share
    one time limit.

    Raises `TooManyRequests`, `Unavailable`, the exceptions of `make`, and `ClientDisconnect` once the caller has
    disconnected. Then `make` is cancelled, and its slot is freed when `make` has ended: a query that runs in the column
    store cannot be stopped.
    """
    return await await_while_connected(request, run_in_queue(request.app.state.report_queue, owner, make))


async def await_while_connected(request: Request, run: Coroutine[Any, Any, T]) -> T:
    """Return the result of `run`, or cancel it and raise `ClientDisconnect` once the caller has disconnected."""
    report = asyncio.create_task(run, name="report")
    disconnect = asyncio.create_task(_wait_for_disconnect(request), name="caller of a report")
    try:
        await asyncio.wait((report, disconnect), return_when=asyncio.FIRST_COMPLETED)
        if report.done():
            return report.result()
        raise ClientDisconnect
    finally:
        disconnect.cancel()
        if not report.done():
            _cancelled_reports.add(report)
            report.add_done_callback(_discard_report)
            report.cancel()
        await asyncio.gather(disconnect, return_exceptions=True)


def _discard_report(report: "asyncio.Task[Any]") -> None:
    _cancelled_reports.discard(report)
    if not report.cancelled():
        # Retrieve the exception: otherwise asyncio logs that it was never retrieved.
        report.exception()


async def run_in_queue(
    queue: FairQueue, owner: int | str, make: Callable[[], Awaitable[T]], seconds: float = _QUERY_SECONDS
) -> T:
    """Wait for a slot of `owner`, an account or a name, then return the result of `make`, whose limited queries share
    this number of seconds. Raises `TooManyRequests`, `Unavailable` and the exceptions of `make`."""
    async with take_turn(queue, f"account {owner}", "the account"):
        with share_time(seconds):
            return await make()


@asynccontextmanager
async def take_turn(queue: FairQueue, key: str, whose: str) -> AsyncIterator[None]:
    """Wait for a slot of `key`, and hold it. `whose` describes the owner of the reports for messages. Raises
    `TooManyRequests` and `Unavailable`."""
    try:
        await queue.acquire(key)
    except QueueFull as error:
        raise TooManyRequests(
            f"{queue.limits.max_waiting_per_key} reports of {whose} wait already, or {queue.limits.max_waiting} of "
            f"all. Send the request again in {_RETRY_SECONDS} s, for fewer at once.",
            headers={"Retry-After": str(_RETRY_SECONDS)},
        ) from error
    except QueueTimeout as error:
        raise Unavailable(
            f"The report has waited for {queue.limits.max_wait_seconds:g} s while others were made. "
            "Send the request again.",
            retry_after=_RETRY_SECONDS,
        ) from error
    try:
        yield
    finally:
        queue.release(key)


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
