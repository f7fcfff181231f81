"""Tells the key directory all that the edges need to know."""

import asyncio
import contextlib
import logging
import math
import time
from datetime import UTC, datetime

from sqlalchemy.exc import SQLAlchemyError

from control_api.database import Sessions
from control_api.monitors.operations import live_monitor_keys
from control_api.projects.operations import live_ingest_keys
from control_api.sites.operations import live_sites
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.key_directory.interface import KeyDirectory

logger = logging.getLogger(__name__)

_REPEAT_SECONDS = 60.0


async def publish_keys(sessions: Sessions, directory: KeyDirectory, now: datetime) -> int:
    """Publish every live key and every site; gives their number. Done at each start, so that a directory may be lost.

    Raises `StorageUnavailable` and what the database raises.
    """
    async with sessions() as session:
        keys = [*await live_ingest_keys(session, now), *await live_monitor_keys(session, now)]
        entries = [*keys, *await live_sites(session)]
    await directory.publish_all(entries)
    return len(entries)


async def keep_published(
    sessions: Sessions,
    directory: KeyDirectory,
    stop: asyncio.Event,
    *,
    every: float = 1.0,
) -> None:
    """Publish all keys now, whenever the directory has lost them, and once a minute, until `stop`.

    Looks every `every` seconds. Once a minute, because a key may have been made or revoked while the directory could
    not be told. Either engine may be away meanwhile: that is logged once an outage.
    """
    published = -math.inf
    away = False
    while not stop.is_set():
        try:
            due = time.monotonic() >= published + _REPEAT_SECONDS
            if due or not await directory.is_complete():
                count = await publish_keys(sessions, directory, datetime.now(UTC))
                published = time.monotonic()
                logger.debug("published %d keys", count)
            away = False
        except (StorageUnavailable, SQLAlchemyError) as error:
            if not away:
                logger.warning("keys cannot be published now: %s", error)
            away = True
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), every)
