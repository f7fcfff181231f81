"""Deletes expired idempotency keys."""

import asyncio
import logging
from datetime import UTC, datetime

from sqlalchemy import delete

from control_domain.database.engine import Sessions
from control_domain.database.run_periodically import run_periodically
from control_domain.tables.idempotency import RETENTION, IdempotentResponse

logger = logging.getLogger(__name__)

_EVERY_SECONDS = 3600.0


async def forget_old(sessions: Sessions, now: datetime) -> None:
    """Delete idempotency keys older than `RETENTION`. Nothing else deletes the keys of callers that do
    not return."""
    async with sessions() as session, session.begin():
        await session.execute(
            delete(IdempotentResponse).where(IdempotentResponse.created_at < now - RETENTION)
        )


async def forget_keys_periodically(
    sessions: Sessions, stop: asyncio.Event, *, every: float = _EVERY_SECONDS
) -> None:
    """Delete expired keys every hour, until `stop` is set."""
    await run_periodically(
        lambda: forget_old(sessions, datetime.now(UTC)),
        stop,
        every=every,
        logger=logger,
        outage="expired idempotency keys cannot be deleted: the database is unreachable",
        fault="expired idempotency keys could not be deleted",
    )
