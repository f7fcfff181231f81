"""Leases of configuration runs. If several workers use one database, a lease lets only one of them work on a run.

Each statement that changes a leased run or its steps names the holder of the lease. So a worker that has lost its
lease to another one writes nothing. Only the database's clock sets and compares the end of a lease.
"""

import secrets
from datetime import timedelta

from sqlalchemy import or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.configurations.runs import ConfigurationRunStatus
from control_domain.database.clock import database_now
from control_domain.tables.configuration import ConfigurationRun


class LeaseLost(Exception):
    """This worker no longer has the lease of the run."""


class LeaseHolder:
    """Claims, renews and releases leases for one worker."""

    def __init__(self, lease: timedelta) -> None:
        """`lease`: how long a run stays leased after the last renewal."""
        self._lease = lease
        self._name = secrets.token_hex(16)

    def _until(self) -> database_now:
        return database_now(self._lease.total_seconds())

    async def claim(self, session: AsyncSession) -> int | None:
        """Lease the oldest run in progress that nobody has leased, and return its ID. None if there is none."""
        is_free = (ConfigurationRun.status == ConfigurationRunStatus.RUNNING) & or_(
            ConfigurationRun.leased_until.is_(None), ConfigurationRun.leased_until < database_now()
        )
        # Read first: on SQLite, even a write that changes no row blocks other writers.
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
    """End the leases of all workers. Call this only if no other worker is running."""
    is_held = ConfigurationRun.holder.is_not(None)
    await session.execute(update(ConfigurationRun).where(is_held).values(holder=None, leased_until=None))
