"""The secrets of notification channels during a rotation of the sealing key."""

import pytest
from sqlalchemy import select

from control_domain.key_rotation import Resealed, reseal
from control_domain.notifications.channel_secrets import open_secrets
from control_domain.notifications.channels import ChannelFields, add_channel
from control_domain.sealing import CannotOpen, SealingKeys
from control_domain.tables.notifications import NotificationChannel
from tests.support.managed_project import NOW, ManagedProject

OLD, NEW = b"o" * 32, b"n" * 32
BOTH = SealingKeys([NEW, OLD])


async def _add_channels(managed: ManagedProject) -> None:
    """Add three channels with secrets that the old key has sealed, and one without any."""
    old = SealingKeys([OLD])
    async with managed.engines.sessions() as session, session.begin():
        for name in ("a", "b", "c"):
            fields = ChannelFields(name, {}, {"topic": f"topic-{name}"})
            await add_channel(session, managed.account, "ntfy", fields, old, {}, managed.actor(), NOW)
        fields = ChannelFields("mail", {"address": "a@x.example"})
        await add_channel(session, managed.account, "email", fields, old, {}, managed.actor(), NOW)


async def _reseal(managed: ManagedProject, keys: SealingKeys, most: int = 500) -> Resealed:
    async with managed.engines.sessions() as session, session.begin():
        return await reseal(session, keys, most)


async def _opened(managed: ManagedProject, keys: SealingKeys) -> list[dict[str, str]]:
    async with managed.engines.sessions() as session:
        rows = await session.scalars(select(NotificationChannel).order_by(NotificationChannel.id))
        return [open_secrets(row, keys) for row in rows]


@pytest.mark.both_databases
async def test_secrets_of_channels_are_sealed_again(managed: ManagedProject) -> None:
    await _add_channels(managed)
    secrets = [{"topic": "topic-a"}, {"topic": "topic-b"}, {"topic": "topic-c"}, {}]
    with pytest.raises(CannotOpen):
        await _reseal(managed, SealingKeys([NEW]))
    assert await _opened(managed, SealingKeys([OLD])) == secrets
    assert await _reseal(managed, BOTH, 2) == Resealed(done=2, left=1)
    assert await _reseal(managed, BOTH, 2) == Resealed(done=1, left=0)
    # The old key is no longer needed.
    assert await _opened(managed, SealingKeys([NEW])) == secrets
