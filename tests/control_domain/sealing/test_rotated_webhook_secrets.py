"""The secrets of webhooks during a rotation of the sealing key."""

import asyncio
from typing import Any

import pytest

from control_domain.key_rotation import Resealed, reseal
from control_domain.projects.operations import create_project
from control_domain.repositories.connect import NewRepository, add_repository
from control_domain.repositories.webhook_secrets import make_secret, open_secret, set_secret
from control_domain.sealing import CannotOpen, Sealed, SealingKeys
from control_domain.tables.repositories import Repository
from control_domain.tables.webhooks import SealedWebhookSecret
from git_hosts.webhook_events import WebhookSecret
from tests.support.managed_project import NOW, ManagedProject

OLD, NEW = b"o" * 32, b"n" * 32
BOTH = SealingKeys([NEW, OLD])


@pytest.fixture
async def repositories(managed: ManagedProject) -> dict[int, str]:
    """The secrets of three repositories by their IDs, which the old key has sealed."""
    secrets = {}
    for slug in ("a", "b", "c"):
        async with managed.engines.sessions() as session, session.begin():
            project = await create_project(session, managed.account, slug, slug, NOW)
            secret = make_secret("github")
            new = NewRepository("github", f"https://github.com/acme/{slug}", "main", secret)
            found = await add_repository(session, SealingKeys([OLD]), project, new, managed.actor(), NOW)
            secrets[found.repository.id] = secret.value
    return secrets


async def _opened(managed: ManagedProject, keys: SealingKeys) -> dict[int, str]:
    async with managed.engines.sessions() as session:
        rows = [await session.get(SealedWebhookSecret, number) for number in range(1, 10)]
    return {row.repository_id: open_secret(keys, row).value for row in rows if row is not None}


async def _reseal(managed: ManagedProject, keys: SealingKeys, most: int = 500) -> Resealed:
    async with managed.engines.sessions() as session, session.begin():
        return await reseal(session, keys, most)


async def test_webhook_secrets_are_sealed_again_in_batches(
    managed: ManagedProject, repositories: dict[int, str]
) -> None:
    assert await _reseal(managed, BOTH, 2) == Resealed(done=2, left=1)
    assert await _reseal(managed, BOTH, 2) == Resealed(done=1, left=0)
    assert await _reseal(managed, BOTH, 2) == Resealed(done=0, left=0)
    # The old key is no longer needed.
    assert await _opened(managed, SealingKeys([NEW])) == repositories


async def test_without_the_old_key_nothing_is_changed(
    managed: ManagedProject, repositories: dict[int, str]
) -> None:
    with pytest.raises(CannotOpen):
        await _reseal(managed, SealingKeys([NEW]))
    assert await _opened(managed, SealingKeys([OLD])) == repositories


@pytest.mark.both_databases
async def test_a_secret_replaced_meanwhile_is_not_restored(
    managed: ManagedProject, repositories: dict[int, str]
) -> None:
    """A control plane that still has the old key first replaces the secret."""
    number = min(repositories)
    keys = _Watched([NEW, OLD])
    async with managed.engines.sessions() as session, session.begin():
        repository = await session.get_one(Repository, number)
        fresh = WebhookSecret("hmac", "the secret that was made meanwhile")
        await set_secret(session, SealingKeys([OLD]), repository, fresh, NOW)
        # The rotation has read the former secret, and waits for the end of this transaction.
        resealing = asyncio.create_task(_reseal(managed, keys, 1))
        await keys.opening.wait()
    assert await resealing == Resealed(done=0, left=3)
    assert await _reseal(managed, BOTH) == Resealed(done=3, left=0)
    assert await _opened(managed, SealingKeys([NEW])) == {**repositories, number: fresh.value}


class _Watched(SealingKeys):
    """Sealing keys that record their use."""

    def __init__(self, keys: Any) -> None:
        super().__init__(keys)
        self.opening = asyncio.Event()

    def open(self, sealed: Sealed, environment_id: str) -> dict[str, str]:
        self.opening.set()
        return super().open(sealed, environment_id)
