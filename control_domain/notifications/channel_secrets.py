"""The sealed secrets of channels."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from control_domain.sealing import Sealed, SealingKeys
from control_domain.tables.notifications import NotificationChannel


def seal_secrets(channel: NotificationChannel, secrets: Mapping[str, str], keys: SealingKeys) -> None:
    """Replace the secrets of the channel."""
    if not secrets:
        channel.sealing_key_id = channel.sealed = None
        return
    sealed = keys.seal(secrets, channel.public_id)
    channel.sealing_key_id, channel.sealed = sealed.key_id, sealed.data


def open_secrets(channel: NotificationChannel, keys: SealingKeys) -> dict[str, str]:
    """Return the secrets of the channel. Raises `CannotOpen`."""
    if channel.sealed is None or channel.sealing_key_id is None:
        return {}
    return keys.open(Sealed(channel.sealing_key_id, channel.sealed), channel.public_id)


async def reseal_channels(session: AsyncSession, keys: SealingKeys, limit: int) -> int:
    """Seal the secrets of up to `limit` channels again with the current key and return their number. Raises
    `CannotOpen`."""
    table = NotificationChannel
    query = (
        select(table.id, table.sealing_key_id, table.sealed, table.public_id)
        .where(_is_stale(keys))
        .order_by(table.id)
        .limit(limit)
    )
    done = 0
    rows: Sequence[Any] = (await session.execute(query)).all()
    for number, key_id, sealed, owner in rows:
        fresh = keys.seal(keys.open(Sealed(key_id, sealed), owner), owner)
        written = await session.execute(
            update(table)
            .where(table.id == number, table.sealed == sealed)
            .values(sealing_key_id=fresh.key_id, sealed=fresh.data)
            .returning(table.id)
            .execution_options(synchronize_session=False)
        )
        done += len(written.all())
    return done


async def count_stale_channels(session: AsyncSession, keys: SealingKeys) -> int:
    """Return the number of channels whose secrets still need an older key."""
    # Account scope: a rotated key has sealed values of every account.
    query = select(func.count()).select_from(NotificationChannel).where(_is_stale(keys))
    return (await session.execute(query)).scalar_one()


def _is_stale(keys: SealingKeys) -> ColumnElement[bool]:
    return NotificationChannel.sealed.is_not(None) & (NotificationChannel.sealing_key_id != keys.key_id)
