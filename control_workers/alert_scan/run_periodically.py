"""Runs the alert scan in the background."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from control_domain.database.engine import Sessions
from control_domain.database.run_periodically import run_periodically
from control_workers.alert_scan.scan import AlertScan
from storage_backends.column_store.interface import ColumnStore
from storage_backends.end_task import end_task

logger = logging.getLogger(__name__)

EVERY_SECONDS = 30.0
_SHUTDOWN_SECONDS = 3.0


@asynccontextmanager
async def running_alert_scan(
    sessions: Sessions, store: ColumnStore, data_folder: Path | None = None, *, every: float = EVERY_SECONDS
) -> AsyncIterator[AlertScan]:
    """Scan every `every` seconds; yield the scan, whose metrics a registry may collect.

    `data_folder`: that of the embedded platform; None: the engines are servers.
    """
    scan = AlertScan(sessions, store, data_folder)
    stop = asyncio.Event()
    task = asyncio.create_task(
        run_periodically(
            scan.scan_once,
            stop,
            every=every,
            logger=logger,
            outage="alerts cannot be evaluated: the database is unreachable",
            fault="alerts could not be evaluated",
        ),
        name="alert scan",
    )
    try:
        yield scan
    finally:
        stop.set()
        await asyncio.wait({task}, timeout=_SHUTDOWN_SECONDS)
        await end_task(task)
        # Otherwise the next scan waits until the lease has ended.
        with contextlib.suppress(SQLAlchemyError):
            await scan.release()
