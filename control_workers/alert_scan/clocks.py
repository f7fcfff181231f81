"""The lease and the clocks of the alert scan. Of several control planes on one database, only one scans
at a time."""

import secrets
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, or_, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.database.clock import database_now
from control_domain.database.statements import insert_if_absent
from control_domain.tables.notifications import AlertClock

SCAN = "alert scan"
"""The name of the scan's clock. The row of this clock is also the lease."""
STORED = "stored exceptions"
"""The name of the clock that tells up to which time stored exceptions are evaluated, by the column
store's clock."""


class LeaseLost(Exception):
    """Another control plane has taken the lease."""


@dataclass(frozen=True, slots=True)
class ScanClock:
    """The stored clock of the alert scan, as it is at the beginning of a scan."""

    through: datetime | None
    """When the last scan was complete. None before the first scan."""
    blind_since: datetime | None
    """Since when the column store cannot be read. None if it can be read."""


class ScanLease:
    """The lease of the alert scan, as one control plane claims it."""

    def __init__(self, seconds: float) -> None:
        """`seconds`: how long the lease lasts after a claim."""
        self._seconds = seconds
        self._name = secrets.token_hex(16)

    async def claim(self, session: AsyncSession, now: datetime) -> ScanClock | None:
        """Take or renew the lease and return the clock; None if another control plane has the lease."""
        row = await session.get(AlertClock, SCAN)
        is_first = row is None
        if is_first:
            await session.execute(insert_if_absent(session, AlertClock, {"name": SCAN, "through": now}))
        is_free = or_(
            AlertClock.leased_until.is_(None),
            AlertClock.leased_until < database_now(),
            AlertClock.holder == self._name,
        )
        claimed = await session.execute(
            update(AlertClock)
            .where(AlertClock.name == SCAN, is_free)
            .values(holder=self._name, leased_until=database_now(self._seconds))
            .returning(AlertClock.through, AlertClock.blind_since)
            .execution_options(synchronize_session=False)
        )
        found = claimed.one_or_none()
        if found is None:
            return None
        return ScanClock(None if is_first else found.through, found.blind_since)

    async def advance(self, session: AsyncSession, now: datetime, blind_since: datetime | None) -> None:
        """Set the clock, in the same transaction as the results of the scan. Raises `LeaseLost`."""
        advanced = await session.execute(
            update(AlertClock)
            .where(AlertClock.name == SCAN, AlertClock.holder == self._name)
            .values(through=now, blind_since=blind_since, leased_until=database_now(self._seconds))
            .returning(AlertClock.name)
            .execution_options(synchronize_session=False)
        )
        if advanced.first() is None:
            raise LeaseLost

    async def release(self, session: AsyncSession) -> None:
        """End the lease, so that another control plane can scan at once."""
        is_held = (AlertClock.name == SCAN) & (AlertClock.holder == self._name)
        await _release(session, is_held)


async def release_all(session: AsyncSession) -> None:
    """End the lease, even if another control plane holds it."""
    await _release(session, AlertClock.name == SCAN)


async def _release(session: AsyncSession, condition: ColumnElement[bool]) -> None:
    await session.execute(
        update(AlertClock)
        .where(condition)
        .values(holder=None, leased_until=None)
        .execution_options(synchronize_session=False)
    )


async def read_through(session: AsyncSession, name: str) -> datetime | None:
    """Return the time up to which the input of this name is evaluated. None if it was never
    evaluated."""
    row = await session.get(AlertClock, name)
    return None if row is None else row.through


async def set_through(session: AsyncSession, name: str, through: datetime) -> None:
    """Store the time up to which the input of this name is evaluated."""
    row = await session.get(AlertClock, name)
    if row is None:
        session.add(AlertClock(name=name, through=through))
    else:
        row.through = through
    await session.flush()
