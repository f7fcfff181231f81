"""Applies the retention settings that people have made to the column store. This deletes older data."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from control_domain.database.engine import Sessions
from control_domain.database.run_periodically import run_periodically
from control_domain.storage.disk_reserve import keep_reserve
from control_domain.storage.retention import read_settings
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.column_store.change_retention import apply_retention
from storage_backends.column_store.interface import ColumnStore, QueryRefused

logger = logging.getLogger(__name__)

_EVERY_SECONDS = 60.0


async def apply_set_retention(
    sessions: Sessions, store: ColumnStore, now: datetime, cluster: str | None = None
) -> Sequence[str]:
    """Apply the retention settings in the database. Return the settings that were refused. Kinds of data without a
    setting stay unchanged. Raises `StorageUnavailable`."""
    async with sessions() as session:
        settings = await read_settings(session)
    if not settings:
        return ()
    applied = await apply_retention(store, settings.items(), now.date(), cluster)
    for change in applied.changed:
        logger.info("retention: %s", change)
    return applied.refused


async def apply_retention_periodically(
    sessions: Sessions,
    store: ColumnStore,
    stop: asyncio.Event,
    wake: asyncio.Event,
    *,
    cluster: str | None = None,
    data_folder: Path | None = None,
    every: float = _EVERY_SECONDS,
) -> None:
    """Apply the settings every minute, and whenever `wake` is set, until `stop` is set. On the embedded platform, also
    keep the reserve file on the disk of `data_folder`."""

    logged: set[str] = set()

    async def apply() -> None:
        for refused in await apply_set_retention(sessions, store, datetime.now(UTC), cluster):
            if refused not in logged:
                logged.add(refused)
                logger.warning(
                    "retention: a shorter setting that may come from a restored database was not "
                    "applied; set it again: %s",
                    refused,
                )
        if data_folder is not None:
            await asyncio.to_thread(keep_reserve, data_folder)

    await run_periodically(
        apply,
        stop,
        every=every,
        logger=logger,
        outage="the retention cannot be applied now",
        fault="the retention could not be applied",
        transient=(StorageUnavailable, QueryRefused, SQLAlchemyError, OSError),
        wake=wake,
    )
