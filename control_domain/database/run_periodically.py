"""Runs functions periodically in the background, through outages of the database."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from sqlalchemy.exc import SQLAlchemyError

from control_domain.database.changes import Changes

Errors = tuple[type[Exception], ...]


async def run_periodically(
    function: Callable[[], Awaitable[object]],
    stop: asyncio.Event,
    *,
    every: float,
    logger: logging.Logger,
    outage: str,
    fault: str,
    transient: Errors = (SQLAlchemyError,),
    wake: asyncio.Event | None = None,
    after_fault: float = 0.0,
    changes: Changes | None = None,
) -> None:
    """Call `function` now, then `every` seconds or as soon as `wake` is set, until `stop` is set.

    An iteration is never interrupted. The code that sets `stop` must also set `wake`. `transient` errors mean that an
    engine is unreachable: they are logged as `outage`, once until the next iteration succeeds. Any other error is
    logged as `fault` with its traceback, and the loop continues after at least `after_fault` seconds: one bad row must
    not block the others. With `changes`, iterations without a change of the database are skipped, unless `wake` is
    set.
    """
    is_unreachable = False
    while not stop.is_set():
        pause = every
        is_due = changes is None or changes.is_due()
        if wake is not None:
            is_due |= wake.is_set()
            wake.clear()
        try:
            if is_due:
                await function()
                is_unreachable = False
        except transient as error:
            if changes is not None:
                changes.repeat()
            if not is_unreachable:
                logger.warning("%s: %s", outage, error)
            is_unreachable = True
        except Exception:
            if changes is not None:
                changes.repeat()
            logger.exception(fault)
            pause = max(every, after_fault)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await (stop if wake is None else wake).wait()


class Throttle:
    """Limits how often a part of a periodic function runs: `is_due` is true at first, and again `seconds` after
    `done`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due_at = float("-inf")

    def is_due(self) -> bool:
        return asyncio.get_running_loop().time() >= self._due_at

    def done(self) -> None:
        self._due_at = asyncio.get_running_loop().time() + self._seconds
