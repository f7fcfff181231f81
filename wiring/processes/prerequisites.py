"""What a process needs before it can start: settings that must be set, and engines that may start later."""

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
    """Return the opened engine. Retries while it is unavailable, because processes may start in any order."""
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            return await open_engine()
        except StorageUnavailable as error:
            logger.warning("%s; trying again in %.1f s", error, pause)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _MAX_PAUSE_SECONDS)
