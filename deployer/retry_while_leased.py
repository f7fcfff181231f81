"""Retries a write while the database is away, as long as the lease lasts."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from sqlalchemy.exc import TimeoutError as PoolTimeout

from control_domain.database.errors import DatabaseUnavailable
from deployer.leases import Lease

logger = logging.getLogger(__name__)

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0

T = TypeVar("T")


async def retry_while_leased(lease: Lease, attempt: Callable[[], Awaitable[T]]) -> T:
    """Call `attempt` and return its result. Repeat the call while the database is unreachable and the lease lasts.

    `attempt` must be repeatable: a commit whose connection was lost may have succeeded. Raises the database error
    when the lease is over, as another deployer may have the environment then.
    """
    pause = _FIRST_PAUSE
    while True:
        try:
            return await attempt()
        except (DatabaseUnavailable, PoolTimeout) as error:
            if time.monotonic() + pause >= lease.ends_at:
                raise
            if pause == _FIRST_PAUSE:
                logger.warning("environment %d: retrying a write: %s", lease.environment_id, error)
        # A cancellation ends the wait; the attempt itself may be shielded.
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
