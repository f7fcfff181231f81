"""Ping keys are sealed again, so that an older key is needed no more."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.monitors.operations import ping_key_owner
from control_domain.sealing.sealing_keys import Sealed, SealingKeys
from control_domain.tables.monitors import MonitorKey


async def reseal_ping_keys(session: AsyncSession, keys: SealingKeys, most: int) -> int:
    """Seal up to `most` ping keys with the present key that an older one has sealed; gives how many. Raises
    `CannotOpen`."""
    # Account scope: a rotated key has sealed values of every account.
    query = (
        select(MonitorKey.id, MonitorKey.sealing_key_id, MonitorKey.sealed, MonitorKey.heartbeat_id)
        .where(_is_stale(keys))
        .order_by(MonitorKey.id)
        .limit(most)
    )
    done = 0
    rows: Sequence[Any] = (await session.execute(query)).all()
    for number, key_id, sealed, heartbeat_id in rows:
        owner = ping_key_owner(heartbeat_id)
        fresh = keys.seal(keys.open(Sealed(key_id, sealed), owner), owner)
        written = await session.execute(
            update(MonitorKey)
            .where(MonitorKey.id == number, MonitorKey.sealed == sealed)
            .values(sealing_key_id=fresh.key_id, sealed=fresh.data)
            .returning(MonitorKey.id)
            .execution_options(synchronize_session=False)
        )
        done += len(written.all())
    return done


async def count_stale_ping_keys(session: AsyncSession, keys: SealingKeys) -> int:
    """Return how many ping keys still need an older key."""
    query = select(func.count()).select_from(MonitorKey).where(_is_stale(keys))
    return (await session.execute(query)).scalar_one()


def _is_stale(keys: SealingKeys) -> ColumnElement[bool]:
    # A revoked key is shown no more, so one whose sealing key is lost is revoked to get the rotation done.
    return (
        MonitorKey.sealed.is_not(None)
        & MonitorKey.revoked_at.is_(None)
        & (MonitorKey.sealing_key_id != keys.key_id)
    )
