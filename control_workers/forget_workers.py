"""Deletes workers of queues that have not reported for a long time."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta

from sqlalchemy import delete, select, tuple_

from control_domain.database.engine import Sessions
from control_domain.database.run_periodically import run_periodically
from control_domain.tables.monitors import QueueWorker
from pipeline_contracts.times import to_epoch_ms

logger = logging.getLogger(__name__)

RETENTION = timedelta(days=30)
"""How long a worker is listed after its last report. Each new process is a new worker, so without a limit the rows
would only grow."""
_EVERY_SECONDS = 3600.0
_KEY = (QueueWorker.queue_id, QueueWorker.worker_id)


async def forget_old_workers(sessions: Sessions, now: datetime) -> None:
    """Delete the workers whose last report is older than `RETENTION`."""
    # Skip locked workers, which are reporting now. Waiting for them could cause a deadlock with consumers.
    old = select(*_KEY).where(QueueWorker.received_ms < to_epoch_ms(now - RETENTION))
    query = delete(QueueWorker).where(tuple_(*_KEY).in_(old.with_for_update(skip_locked=True)))
    async with sessions() as session, session.begin():
        await session.execute(query.execution_options(synchronize_session=False))


async def forget_workers_periodically(
    sessions: Sessions, stop: asyncio.Event, *, every: float = _EVERY_SECONDS
) -> None:
    """Delete old workers every hour, until `stop` is set."""
    await run_periodically(
        lambda: forget_old_workers(sessions, datetime.now(UTC)),
        stop,
        every=every,
        logger=logger,
        outage="old workers of queues cannot be deleted: the database is unreachable",
        fault="old workers of queues could not be deleted",
    )
