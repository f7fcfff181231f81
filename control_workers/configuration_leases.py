"""Leases of configuration runs: of several workers on one database, one at a time works on a run.

Each statement that changes a leased run or its steps names the holder: a worker whose lease was taken by another one
therefore writes nothing. The end of a lease is written and compared with the database's clock only.
"""

import secrets
from datetime import timedelta

from sqlalchemy import or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.configurations.runs import ConfigurationRunStatus
from control_domain.database.clock import database_now
from control_domain.tables.configuration import ConfigurationRun


class LeaseLost(Exception):
    """The run is no longer leased to this worker."""


class LeaseHolder:
    """A worker as the holder of leases."""

    def __init__(self, lease: timedelta) -> None:
        """`lease`: how long a run stays leased after the last renewal."""
        self._lease = lease
        self._name = secrets.token_hex(16)

    def _until(self) -> database_now:
        return database_now(self._lease.total_seconds())

    async def claim(self, session: AsyncSession) -> int | None:
        """Lease the oldest unleased run in progress and return its ID; None if there is none."""
        is_free = (ConfigurationRun.status == ConfigurationRunStatus.RUNNING) & or_(
            ConfigurationRun.leased_until.is_(None), ConfigurationRun.leased_until < database_now()
        )
        # Read first: on SQLite even a write that matches nothing blocks other writers.
        oldest = select(ConfigurationRun.id).where(is_free).order_by(ConfigurationRun.id).limit(1)
        run_id = (await session.execute(oldest)).scalar_one_or_none()
        if run_id is None:
            return None
        claimed = await session.execute(
            update(ConfigurationRun)
            .where(ConfigurationRun.id == run_id, is_free)
            .values(holder=self._name, leased_until=self._until())
            .returning(ConfigurationRun.id)
            .execution_options(synchronize_session=False)
        )
        return claimed.scalar_one_or_none()

    async def renew(self, session: AsyncSession, run_id: int) -> ConfigurationRun:
        """Renew the lease and return the run, locked until the end of the transaction. Raises `LeaseLost`."""
        renewed = await session.execute(
            update(ConfigurationRun)
            .where(ConfigurationRun.id == run_id, ConfigurationRun.holder == self._name)
            .values(leased_until=self._until())
            .returning(ConfigurationRun.id)
            .execution_options(synchronize_session=False)
        )
        if renewed.scalar_one_or_none() is None:
            raise LeaseLost
        return await session.get_one(ConfigurationRun, run_id, populate_existing=True)

    async def release(self, session: AsyncSession, run_id: int) -> None:
        """End the lease, so that another worker can continue at once."""
        is_held = (ConfigurationRun.id == run_id) & (ConfigurationRun.holder == self._name)
        await session.execute(update(ConfigurationRun).where(is_held).values(holder=None, leased_until=None))


async def release_all_leases(session: AsyncSession) -> None:
    """End the leases of all workers. Only for a caller that knows that no other worker is running."""
    is_held = ConfigurationRun.holder.is_not(None)
    await session.execute(update(ConfigurationRun).where(is_held).values(holder=None, leased_until=None))
