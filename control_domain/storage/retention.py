"""Settings of how long kinds of data are kept, and the right to change them."""

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor, record_audit_entry
from control_domain.tables.accounts import Account
from control_domain.tables.storage import DataRetention
from pipeline_contracts.errors import NotAllowed

MAX_DAYS = 3650


async def require_installation(session: AsyncSession, account: Account) -> None:
    """Raise `NotAllowed` unless the account is the oldest one, which runs the installation. Sizes and retention
    concern the data of all accounts."""
    # Account scope: only the number of the oldest account is read.
    oldest = await session.scalar(select(func.min(Account.id)))
    if oldest != account.id:
        raise NotAllowed(
            "Storage concerns the whole installation: owners and admins of its first account see and set it."
        )


async def read_settings(session: AsyncSession) -> Mapping[str, int]:
    """Return the retention in days of each kind of data for which somebody has set one."""
    return {row.kind: row.days for row in (await session.execute(select(DataRetention))).scalars()}


async def save_retention(
    session: AsyncSession,
    account: Account,
    kind: str,
    days: int,
    before: int | None,
    actor: Actor,
    now: datetime,
) -> None:
    """Store the retention of a kind in days, with an audit entry. `before`: the former retention in days."""
    row = await session.get(DataRetention, kind, with_for_update=True)
    if row is None:
        row = DataRetention(kind=kind, days=days, changed_at=now, changed_by_id=actor.person_id)
        session.add(row)
    row.days, row.changed_at, row.changed_by_id = days, now, actor.person_id
    details = {"days": {"from": before, "to": days}}
    record_audit_entry(session, actor, account.id, "retention.set", f"data {kind}", now, details)
    await session.flush()
