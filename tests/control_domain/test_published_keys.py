"""The keys that a control plane publishes: when it starts, and after a change of an account."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from control_domain.accounts.operations import create_account, set_ingest_limit
from control_domain.database.engine import Sessions
from control_domain.monitors.operations import live_monitor_keys
from control_domain.projects.operations import create_project
from control_domain.published_keys import publish_keys, publish_new_keys, republish_account
from control_domain.sealing import SealingKeys
from control_domain.tables.monitors import MonitorKey
from control_domain.tables.projects import IngestKey
from pipeline_contracts.credentials import CredentialKind, digest_credential
from pipeline_contracts.heartbeat_names import digest_heartbeat_name
from pipeline_contracts.rate_limits import RateLimit
from pipeline_contracts.times import to_epoch_ms
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from storage_backends.key_directory.interface import KeyEntry
from tests.support.accounts import make_acme
from tests.support.added_objects import ObjectAdder

NOW = datetime.now(UTC).replace(microsecond=0)
MINUTE = timedelta(minutes=1)


@pytest.mark.both_databases
async def test_every_live_key_is_published_at_a_start(sessions: Sessions) -> None:
    """Revoked and expired keys are not published."""
    async with sessions() as session, session.begin():
        acme = await make_acme(session, NOW)
    objects_environment = acme.environment.public_id
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
    assert await publish_keys(sessions, directory, NOW) == 6
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
    name = await directory.find(digest_heartbeat_name(objects_environment, "backup"))
    assert name is not None
    assert (name.kind, name.monitor) == (CredentialKind.HEARTBEAT_NAME, f"heartbeat/{heartbeat.id}")
    for key in (expired, revoked):
        assert await directory.find(digest_credential(key.secret)) is None
    async with sessions() as session:
        later = await live_monitor_keys(session, NOW + MINUTE)
    assert digest_credential(expiring.secret) not in {entry.digest for entry in later}


@pytest.mark.both_databases
async def test_a_changed_account_is_published_again(sessions: Sessions) -> None:
    """Every live key and site of the account is published, and none of another account."""
    async with sessions() as session, session.begin():
        acme = await make_acme(session, NOW)
        beta = await create_account(session, "Beta", "beta", RateLimit(1, 1), NOW)
        blog = await create_project(session, beta, "Blog", "blog", NOW)
    directory = InProcessKeyDirectory()
    objects = ObjectAdder(sessions, directory, SealingKeys([b"k" * 32]))
    ingest_key, heartbeat, queue = (
        await objects.add_ingest_key(),
        await objects.add_heartbeat(),
        await objects.add_queue(),
    )
    site = await objects.add_site("shop.example", "https://shop.example", project="shop")
    others = await objects.add_site("blog.example", "https://blog.example", project=blog.public_id)
    revoked = await objects.add_ingest_key()
    await objects.revoke_ingest_key(revoked.id)
    async with sessions() as session, session.begin():
        for account in (acme.account, beta):
            await set_ingest_limit(session, account.public_id, RateLimit(0.5, 7))
    await republish_account(sessions, directory, acme.account.id, NOW)
    for secret in (ingest_key.secret, *heartbeat.secrets, *queue.secrets, site.public_id):
        entry = await directory.find(digest_credential(secret))
        assert entry is not None
        assert (entry.limit, entry.account_id) == (RateLimit(0.5, 7), acme.account.public_id)
    of_other = await directory.find(digest_credential(others.public_id))
    assert of_other is not None
    assert (of_other.limit, of_other.account_id) == (RateLimit(1, 1), beta.public_id)
    assert await directory.find(digest_credential(revoked.secret)) is None


class RevokingDirectory(InProcessKeyDirectory):
    """A directory in which a key is revoked after it was read as live, and before it is published."""

    objects: ObjectAdder
    key_id: int | None = None

    async def publish(self, entry: KeyEntry) -> None:
        if self.key_id is not None:
            number, self.key_id = self.key_id, None
            await self.objects.revoke_ingest_key(number)
        await super().publish(entry)


@pytest.mark.both_databases
async def test_a_key_that_is_revoked_meanwhile_is_not_published_again(sessions: Sessions) -> None:
    directory = RevokingDirectory()
    directory.objects = objects = ObjectAdder(sessions, directory)
    async with sessions() as session, session.begin():
        acme = await make_acme(session, NOW)
    key = await objects.add_ingest_key()
    directory.key_id = key.id
    await republish_account(sessions, directory, acme.account.id, NOW)
    assert directory.key_id is None
    assert await directory.find(digest_credential(key.secret)) is None


class CountingDirectory(InProcessKeyDirectory):
    """Counts the published entries."""

    published = 0

    async def publish(self, entry: KeyEntry) -> None:
        self.published += 1
        await super().publish(entry)


@pytest.mark.both_databases
async def test_a_key_that_is_committed_after_one_with_a_higher_id_is_published(sessions: Sessions) -> None:
    async with sessions() as session, session.begin():
        acme = await make_acme(session, NOW)
    directory = CountingDirectory()
    known = await publish_new_keys(sessions, directory, None, NOW)
    # The transaction with the lower ID is the last to commit.
    for number, published in ((1002, 1), (1001, 2), (1003, 3)):
        digest = digest_credential(f"phr_ing_{number}")
        async with sessions() as session, session.begin():
            environment_id = acme.environment.id
            session.add(IngestKey(id=number, environment_id=environment_id, digest=digest, created_at=NOW))
        for _ in range(2):
            known = await publish_new_keys(sessions, directory, known, NOW)
        assert await directory.find(digest) is not None
        # Each key is published once.
        assert directory.published == published
    # The memory of published keys is bounded.
    async with sessions() as session, session.begin():
        session.add(IngestKey(id=9000, environment_id=environment_id, digest=b"9" * 32, created_at=NOW))
    assert await publish_new_keys(sessions, directory, known, NOW) == {9000}
