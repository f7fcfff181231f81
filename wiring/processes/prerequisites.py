"""Prerequisites of a process: settings that must be set, and engines that may start later."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.settings import PREFIX, BadSettings, Settings

logger = logging.getLogger(__name__)

T = TypeVar("T")

_FIRST_PAUSE_SECONDS = 0.2
_MAX_PAUSE_SECONDS = 5.0
# About five minutes.
_LOG_EVERY = 60


def require_settings(settings: Settings, *names: str) -> tuple[str, ...]:
    """Return the values of these settings. Raises `BadSettings` that names each one that is not set."""
    values = [getattr(settings, name) for name in names]
    missing = [
        f"{PREFIX}{name.upper()}: needed here"
        for name, value in zip(names, values, strict=True)
        if value is None
    ]
    if missing:
        raise BadSettings("\n".join([*missing, "`pharos settings` lists all settings."]))
    return tuple(values)


async def open_when_available(open_engine: Callable[[], Awaitable[T]]) -> T:
    """Return the opened engine. Retries while it is unavailable, because processes may start in any order.

    Logs the first failure, the outage again every `_LOG_EVERY` attempts, and its end.
    """
    pause, attempts, fault = _FIRST_PAUSE_SECONDS, 0, None
    while True:
        attempts += 1
        try:
            engine = await open_engine()
        except StorageUnavailable as error:
            if attempts % _LOG_EVERY == 1:
                logger.warning("%s; retrying until it responds", error)
            fault = error
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)
        else:
            if fault is not None:
                logger.info("it responds after %d attempts: %s", attempts, fault)
            return engine
