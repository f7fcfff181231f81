"""The keys that a control plane publishes when it starts, on both databases."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from control_domain.database.engine import Sessions
from control_domain.monitors.operations import live_monitor_keys
from control_domain.published_keys import publish_keys
from control_domain.sealing import SealingKeys
from control_domain.tables.monitors import MonitorKey
from pipeline_contracts.credentials import CredentialKind, digest_credential
from pipeline_contracts.times import to_epoch_ms
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from tests.support.accounts import make_acme
from tests.support.added_objects import ObjectAdder

NOW = datetime.now(UTC).replace(microsecond=0)
MINUTE = timedelta(minutes=1)


@pytest.mark.both_databases
async def test_every_live_key_is_published_at_a_start(sessions: Sessions) -> None:
    """Revoked and expired keys are not."""
    async with sessions() as session, session.begin():
        await make_acme(session, NOW)
    objects = ObjectAdder(sessions, InProcessKeyDirectory(), SealingKeys([b"k" * 32]))
    ingest_key, heartbeat, queue = (
        await objects.add_ingest_key(),
        await objects.add_heartbeat(),
        await objects.add_queue(),
    )
    expiring, expired, revoked = [await objects.add_monitor_key("queue", queue.id) for _ in range(3)]
    await objects.revoke_monitor_key(revoked.id)
    await objects.revoke_ingest_key((await objects.add_ingest_key()).id)
    async with sessions() as session, session.begin():
        for key, expires_at in ((expiring, NOW + MINUTE), (expired, NOW)):
            await session.execute(
                update(MonitorKey).where(MonitorKey.id == key.id).values(expires_at=expires_at)
            )
    directory = InProcessKeyDirectory()
    assert await publish_keys(sessions, directory, NOW) == 5
    expected = {
        ingest_key.secret: (CredentialKind.INGEST_KEY, None, None),
        heartbeat.key.secret: (CredentialKind.MONITOR_KEY, f"heartbeat/{heartbeat.id}", None),
        heartbeat.secrets[1]: (CredentialKind.PING_KEY, f"heartbeat/{heartbeat.id}", None),
        queue.key.secret: (CredentialKind.MONITOR_KEY, f"queue/{queue.id}", None),
        expiring.secret: (CredentialKind.MONITOR_KEY, f"queue/{queue.id}", to_epoch_ms(NOW + MINUTE)),
    }
    for secret, (kind, monitor, expires_ms) in expected.items():
        entry = await directory.find(digest_credential(secret))
        assert entry is not None
        assert (entry.kind, entry.monitor, entry.expires_ms) == (kind, monitor, expires_ms)
    for key in (expired, revoked):
        assert await directory.find(digest_credential(key.secret)) is None
    async with sessions() as session:
        later = await live_monitor_keys(session, NOW + MINUTE)
    assert digest_credential(expiring.secret) not in {entry.digest for entry in later}
