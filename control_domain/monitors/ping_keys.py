"""Ping keys of heartbeats. They are part of URLs in crontabs and scripts, so their secrets can be read again.

The secret is stored sealed with the keys of variables. The edges know only its digest, as for every key.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.audit import Actor
from control_domain.keys import is_live
from control_domain.monitors.find import FoundHeartbeat
from control_domain.monitors.monitor_keys import MAX_LIVE_KEYS, revoke_matching_key
from control_domain.monitors.operations import ping_key_owner
from control_domain.monitors.record import record_key_entry
from control_domain.paging import Page
from control_domain.sealing import CannotOpen, Sealed, SealingKeys
from control_domain.tables.monitors import MonitorKey
from pipeline_contracts.credentials import CredentialKind, digest_credential, make_credential
from pipeline_contracts.errors import Conflict, NotFound


class PingKey(NamedTuple):
    """A ping key and its secret; None if the key is not live or cannot be opened."""

    row: MonitorKey
    secret: str | None


async def add_ping_key(
    session: AsyncSession, found: FoundHeartbeat, keys: SealingKeys, actor: Actor, now: datetime
) -> PingKey:
    """Create a ping key of the heartbeat; the others keep working. Raises `Conflict` if it has too many."""
    heartbeat = found.monitor
    live = select(func.count()).where(
        MonitorKey.heartbeat_id == heartbeat.id,
        MonitorKey.sealed.is_not(None),
        MonitorKey.revoked_at.is_(None),
    )
    if (await session.execute(live)).scalar_one() >= MAX_LIVE_KEYS:
        raise Conflict(f"The heartbeat has {MAX_LIVE_KEYS} ping keys, which is the limit: revoke one first.")
    secret = make_credential(CredentialKind.PING_KEY)
    sealed = keys.seal({"key": secret}, ping_key_owner(heartbeat.id))
    key = MonitorKey(
        heartbeat_id=heartbeat.id,
        digest=digest_credential(secret),
        created_at=now,
        sealing_key_id=sealed.key_id,
        sealed=sealed.data,
    )
    session.add(key)
    await session.flush()
    record_key_entry(session, found, "ping-key.create", key.id, actor, now)
    return PingKey(key, secret)


async def list_ping_keys(
    session: AsyncSession, found: FoundHeartbeat, keys: SealingKeys, page: Page, now: datetime
) -> tuple[Sequence[PingKey], bool]:
    """Return a page of the ping keys of the heartbeat, newest first, and whether more follow."""
    query = (
        select(MonitorKey)
        .where(MonitorKey.heartbeat_id == found.monitor.id, MonitorKey.sealed.is_not(None))
        .order_by(MonitorKey.id.desc())
        .limit(page.limit + 1)
    )
    if page.before is not None:
        query = query.where(MonitorKey.id < page.before)
    rows = (await session.execute(query)).scalars().all()
    return [PingKey(row, _open(keys, row, now)) for row in rows[: page.limit]], len(rows) > page.limit


async def revoke_ping_key(
    session: AsyncSession, found: FoundHeartbeat, key_id: int | None, actor: Actor, now: datetime
) -> MonitorKey:
    """Revoke a ping key of the heartbeat; a revoked key stays unchanged. Raises `NotFound`."""
    is_key = (
        (MonitorKey.id == (key_id or 0))
        & (MonitorKey.heartbeat_id == found.monitor.id)
        & MonitorKey.sealed.is_not(None)
    )
    key, is_revoked = await revoke_matching_key(session, is_key, now)
    if key is None:
        raise NotFound("The heartbeat has no such ping key.")
    if is_revoked:
        record_key_entry(session, found, "ping-key.revoke", key.id, actor, now)
    return key


def _open(keys: SealingKeys, row: MonitorKey, now: datetime) -> str | None:
    if not is_live(row, now) or row.sealed is None or row.sealing_key_id is None:
        return None
    try:
        return keys.open(Sealed(row.sealing_key_id, row.sealed), ping_key_owner(row.heartbeat_id))["key"]
    except CannotOpen:
        # PHAROS_VARIABLES_KEY no longer has the secret that sealed it. The ping key itself keeps working.
        return None
