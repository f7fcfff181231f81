"""Informs the edges when an account reaches its limit of heartbeats, or has room again."""

import asyncio
import logging
from collections.abc import Set
from datetime import UTC, datetime

from sqlalchemy.exc import SQLAlchemyError

from control_domain.database.changes import Changes
from control_domain.database.engine import Sessions
from control_domain.database.run_periodically import run_periodically
from control_domain.published_keys import republish_full_accounts
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.key_directory.interface import KeyDirectory

logger = logging.getLogger(__name__)

_POLL_SECONDS = 5.0


async def republish_full_accounts_periodically(
    sessions: Sessions, directory: KeyDirectory, stop: asyncio.Event, *, every: float = _POLL_SECONDS
) -> None:
    """Look for accounts that have reached or left their limit every 5 seconds, until `stop` is set.

    Heartbeats come and go in many ways, for example together with a preview: one look finds them all.
    """
    known: Set[int] = frozenset()

    async def publish() -> None:
        nonlocal known
        known = await republish_full_accounts(sessions, directory, known, datetime.now(UTC))

    await run_periodically(
        publish,
        stop,
        every=every,
        logger=logger,
        outage="the edges cannot be informed of accounts at their limit of heartbeats now",
        fault="the edges could not be informed of accounts at their limit of heartbeats",
        transient=(StorageUnavailable, SQLAlchemyError),
        changes=Changes(sessions),
    )
