"""Monitor keys, with which jobs and workers report to one heartbeat or one queue."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor
from control_domain.keys import check_expiry
from control_domain.monitors.find import FoundMonitor
from control_domain.monitors.record import get_kind, record_key_entry
from control_domain.paging import Page
from control_domain.tables.monitors import Heartbeat, MonitorKey
from pipeline_contracts.credentials import CredentialKind, digest_credential, make_credential
from pipeline_contracts.errors import Conflict, NotFound

MAX_LIVE_KEYS = 100
"""Limit for each kind of key of one monitor. Each control plane publishes all live keys when it starts."""


async def add_monitor_key(
    session: AsyncSession,
    found: FoundMonitor,
    expires_at: datetime | None,
    actor: Actor,
    now: datetime,
) -> tuple[MonitorKey, str]:
    """Create a key of the monitor, and return it with its secret, which is not stored. The others keep working.

    Raises `InvalidInput`, and `Conflict` if the monitor has too many live keys.
    """
    check_expiry(expires_at, now)
    live = select(func.count()).where(
        _is_key_of(found),
        MonitorKey.revoked_at.is_(None),
        or_(MonitorKey.expires_at.is_(None), MonitorKey.expires_at > now),
    )
    if (await session.execute(live)).scalar_one() >= MAX_LIVE_KEYS:
        raise Conflict(
            f"The {get_kind(found)} has {MAX_LIVE_KEYS} live keys, which is the limit: revoke one first."
        )
    secret = make_credential(CredentialKind.MONITOR_KEY)
    is_heartbeat = isinstance(found.monitor, Heartbeat)
    key = MonitorKey(
        heartbeat_id=found.monitor.id if is_heartbeat else None,
        queue_id=None if is_heartbeat else found.monitor.id,
        digest=digest_credential(secret),
        created_at=now,
        expires_at=expires_at,
    )
    session.add(key)
    await session.flush()
    record_key_entry(session, found, "monitor-key.create", key.id, actor, now)
    return key, secret


async def list_monitor_keys(
    session: AsyncSession, found: FoundMonitor, page: Page
) -> tuple[Sequence[MonitorKey], bool]:
    """Return a page of the keys of the monitor, newest first, and whether more follow."""
    # Account scope: the condition names the monitor.
    query = select(MonitorKey).where(_is_key_of(found)).order_by(MonitorKey.id.desc()).limit(page.limit + 1)
    if page.before is not None:
        query = query.where(MonitorKey.id < page.before)
    rows = (await session.execute(query)).scalars().all()
    return rows[: page.limit], len(rows) > page.limit


async def revoke_monitor_key(
    session: AsyncSession, found: FoundMonitor, key_id: int | None, actor: Actor, now: datetime
) -> MonitorKey:
    """Revoke a key of the monitor; a revoked key stays unchanged. Raises `NotFound`."""
    key, is_revoked = await revoke_matching_key(
        session, (MonitorKey.id == (key_id or 0)) & _is_key_of(found), now
    )
    if key is None:
        raise NotFound(f"The {get_kind(found)} has no such key.")
    if is_revoked:
        record_key_entry(session, found, "monitor-key.revoke", key.id, actor, now)
    return key


async def revoke_matching_key(
    session: AsyncSession, is_key: ColumnElement[bool], now: datetime
) -> tuple[MonitorKey | None, bool]:
    """Mark the key that meets the condition as revoked. Return the key, and False if it was revoked already."""
    # Account scope: the condition of the callers names the monitor.
    revoked = await session.execute(
        update(MonitorKey)
        .where(is_key, MonitorKey.revoked_at.is_(None))
        .values(revoked_at=now)
        .returning(MonitorKey.id)
        .execution_options(synchronize_session=False)
    )
    is_revoked = revoked.scalar_one_or_none() is not None
    return (await session.execute(select(MonitorKey).where(is_key))).scalar_one_or_none(), is_revoked


def _is_key_of(found: FoundMonitor) -> ColumnElement[bool]:
    """Return the condition that a row is a key of the monitor, and no ping key."""
    column = MonitorKey.heartbeat_id if isinstance(found.monitor, Heartbeat) else MonitorKey.queue_id
    return (column == found.monitor.id) & MonitorKey.sealed.is_(None)
