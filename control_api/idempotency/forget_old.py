"""Removes answers that are given again no more."""

import asyncio
import contextlib
import logging
from datetime import UTC, datetime, timedelta

from sqlalchemy import delete
from sqlalchemy.exc import SQLAlchemyError

from control_api.database import Sessions
from control_api.idempotency.tables import IdempotentAnswer

logger = logging.getLogger(__name__)

KEPT = timedelta(hours=24)
_EVERY_SECONDS = 3600.0


async def forget_old(sessions: Sessions, now: datetime) -> None:
    """Remove what is older than 24 hours: of callers who never came back, nobody else does."""
    async with sessions() as session, session.begin():
        await session.execute(delete(IdempotentAnswer).where(IdempotentAnswer.created_at < now - KEPT))


async def keep_forgetting(sessions: Sessions, stop: asyncio.Event, *, every: float = _EVERY_SECONDS) -> None:
    """Do so every hour, until `stop`."""
    while not stop.is_set():
        try:
            await forget_old(sessions, datetime.now(UTC))
        except SQLAlchemyError as error:
            logger.warning("old answers could not be removed now: %s", error)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), every)
