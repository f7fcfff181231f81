"""Removes answers that are given again no more."""

import asyncio
import logging
from datetime import UTC, datetime

from sqlalchemy import delete

from control_domain.database.engine import Sessions
from control_domain.tables.idempotency import RETENTION, IdempotentAnswer
from control_workers.run_periodically import keep_doing

logger = logging.getLogger(__name__)

_EVERY_SECONDS = 3600.0


async def forget_old(sessions: Sessions, now: datetime) -> None:
    """Remove what is older than 24 hours: of callers who never came back, nobody else does."""
    async with sessions() as session, session.begin():
        await session.execute(delete(IdempotentAnswer).where(IdempotentAnswer.created_at < now - RETENTION))


async def keep_forgetting(sessions: Sessions, stop: asyncio.Event, *, every: float = _EVERY_SECONDS) -> None:
    """Do so every hour, until `stop`."""
    await keep_doing(
        lambda: forget_old(sessions, datetime.now(UTC)),
        stop,
        every=every,
        logger=logger,
        outage="old answers wait for the database",
        fault="old answers could not be removed",
    )
