"""Runs the alert scan in the background."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy.exc import SQLAlchemyError

from control_domain.database.run_periodically import run_periodically
from control_workers.alert_scan.scan import AlertScan
from storage_backends.end_task import end_task

logger = logging.getLogger(__name__)

EVERY_SECONDS = 30.0
_SHUTDOWN_SECONDS = 3.0


@asynccontextmanager
async def running_alert_scan(
    scan: AlertScan, *, is_alone: bool, every: float = EVERY_SECONDS
) -> AsyncIterator[None]:
    """Scan every `every` seconds until the context ends.

    `is_alone`: True if no other control plane uses the database. An existing lease then belongs to a process that
    was killed.
    """
    stop = asyncio.Event()
    is_held = is_alone

    async def run() -> None:
        nonlocal is_held
        if is_held:
            await scan.release_all()
            is_held = False
        await scan.scan_once()

    task = asyncio.create_task(
        run_periodically(
            run,
            stop,
            every=every,
            logger=logger,
            outage="alerts cannot be evaluated: the database is unreachable",
            fault="alerts could not be evaluated",
        ),
        name="alert scan",
    )
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait({task}, timeout=_SHUTDOWN_SECONDS)
        await end_task(task)
        # Without this, the next scan would have to wait until the lease has ended.
        with contextlib.suppress(SQLAlchemyError):
            await scan.release()
