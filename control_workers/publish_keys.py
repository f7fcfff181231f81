"""Publishes the keys again whenever the key directory has lost them."""

import asyncio
import logging
from datetime import UTC, datetime

from sqlalchemy.exc import SQLAlchemyError

from control_domain.database.engine import Sessions
from control_domain.published_keys import publish_keys
from control_workers.run_periodically import Throttle, run_periodically
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.key_directory.interface import KeyDirectory

logger = logging.getLogger(__name__)


async def publish_keys_periodically(
    sessions: Sessions,
    directory: KeyDirectory,
    stop: asyncio.Event,
    *,
    every: float = 1.0,
    repeat_seconds: float = 60.0,
) -> None:
    """Publish all keys now, whenever the directory has lost them, and each `repeat_seconds`, until `stop` is set.

    Checks the directory every `every` seconds. The repetition covers changes that another process could not publish
    while this process could reach the directory. Outages of either engine are logged once.
    """
    repeat = Throttle(repeat_seconds)

    async def publish() -> None:
        if repeat.is_due() or not await directory.is_complete():
            count = await publish_keys(sessions, directory, datetime.now(UTC))
            repeat.done()
            logger.debug("published %d keys", count)

    await run_periodically(
        publish,
        stop,
        every=every,
        logger=logger,
        outage="keys cannot be published now",
        fault="keys could not be published",
        transient=(StorageUnavailable, SQLAlchemyError),
    )
