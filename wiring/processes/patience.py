"""Waits for engines that are not there yet: parts may be started in any order."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pipeline_contracts.errors import StorageUnavailable

logger = logging.getLogger(__name__)

T = TypeVar("T")

_FIRST_PAUSE = 0.2
_LONGEST_PAUSE = 5.0


async def when_there(open_engine: Callable[[], Awaitable[T]]) -> T:
    """The opened engine, tried again until it answers."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return await open_engine()
        except StorageUnavailable as error:
            logger.warning("%s; trying again in %.1f s", error, pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
