"""What a control plane does again and again in the background."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from sqlalchemy.exc import SQLAlchemyError

Errors = tuple[type[Exception], ...]


async def keep_doing(
    work: Callable[[], Awaitable[object]],
    stop: asyncio.Event,
    *,
    every: float,
    logger: logging.Logger,
    outage: str,
    fault: str,
    passing: Errors = (SQLAlchemyError,),
    news: asyncio.Event | None = None,
    after_fault: float = 0.0,
) -> None:
    """`work` at once and every so many seconds, or as soon as there is `news`, until `stop`; no round is cut short.
    Whoever sets `stop` sets `news` as well.

    Errors of `passing` are those of engines that are away: they are logged as `outage`, once until a round ends well.
    Any other is logged as `fault`, with where it came from, and ends nothing: one bad row must not hold up all others.
    Behind it at least `after_fault` seconds pass.
    """
    is_away = False
    while not stop.is_set():
        pause = every
        if news is not None:
            news.clear()
        try:
            await work()
            is_away = False
        except passing as error:
            if not is_away:
                logger.warning("%s: %s", outage, error)
            is_away = True
        except Exception:
            logger.exception(fault)
            pause = max(every, after_fault)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await (stop if news is None else news).wait()


class Seldom:
    """Now and then among what is done more often: `is_due` is true at first, and again so many seconds behind
    `done`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due_at = float("-inf")

    def is_due(self) -> bool:
        return asyncio.get_running_loop().time() >= self._due_at

    def done(self) -> None:
        self._due_at = asyncio.get_running_loop().time() + self._seconds
