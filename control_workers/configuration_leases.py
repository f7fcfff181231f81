"""Leases of applications: of several workers on one database, one at a time is at an application.

Each statement that changes a leased application, or anything by it, names its holder: one whose lease another worker
has taken writes nothing. When a lease ends is written and compared by the database's clock alone.
"""

import secrets
from datetime import timedelta

from sqlalchemy import or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.configurations.application_status import ApplicationStatus
from control_domain.database.clock import database_now
from control_domain.tables.configuration import Application


class LeaseLost(Exception):
    """The application is not this worker's any more."""


class Holder:
    """A worker, as leases name it."""

    def __init__(self, lease: timedelta) -> None:
        """`lease`: how long an application is left to it after its last word."""
        self._lease = lease
        self._name = secrets.token_hex(16)

    def _until(self) -> database_now:
        return database_now(self._lease.total_seconds())

    async def claim(self, session: AsyncSession) -> int | None:
        """Lease an application that there is something to do of; None: there is none that nobody is at."""
        free = (Application.status == ApplicationStatus.RUNNING) & or_(
            Application.leased_until.is_(None), Application.leased_until < database_now()
        )
        # Read first: on SQLite a write that finds nothing would still keep others from writing.
        oldest = select(Application.id).where(free).order_by(Application.id).limit(1)
        number = (await session.execute(oldest)).scalar_one_or_none()
        if number is None:
            return None
        claimed = await session.execute(
            update(Application)
            .where(Application.id == number, free)
            .values(holder=self._name, leased_until=self._until())
            .returning(Application.id)
            .execution_options(synchronize_session=False)
        )
        return claimed.scalar_one_or_none()

    async def hold(self, session: AsyncSession, number: int) -> Application:
        """The application, which nobody else moves until the end of the transaction, for another while. Raises
        `LeaseLost`."""
        held = await session.execute(
            update(Application)
            .where(Application.id == number, Application.holder == self._name)
            .values(leased_until=self._until())
            .returning(Application.id)
            .execution_options(synchronize_session=False)
        )
        if held.scalar_one_or_none() is None:
            raise LeaseLost
        return await session.get_one(Application, number, populate_existing=True)

    async def let_go(self, session: AsyncSession, number: int) -> None:
        """Let another worker go on at once."""
        mine = (Application.id == number) & (Application.holder == self._name)
        await session.execute(update(Application).where(mine).values(holder=None, leased_until=None))


async def free_all(session: AsyncSession) -> None:
    """Take applications from workers that are gone, before their leases run out. For who knows that there is no other
    worker."""
    held = Application.holder.is_not(None)
    await session.execute(update(Application).where(held).values(holder=None, leased_until=None))
