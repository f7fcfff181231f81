"""The secrets of webhooks while the key that seals them gives way to another one."""

import asyncio
from typing import Any

import pytest

from control_domain.key_rotation import Resealed, reseal
from control_domain.projects.operations import create_project
from control_domain.repositories.webhook_secrets import open_secret, set_secret
from control_domain.sealing import CannotOpen, Sealed, SealingKeys
from control_domain.tables.repositories import Repository
from control_domain.tables.webhooks import SealedWebhookSecret
from git_hosts.webhook_events import WebhookSecret
from operator_actions.actions.engines import Engines
from tests.support.operated import NOW, Operated

OLD, NEW = b"o" * 32, b"n" * 32
BOTH = SealingKeys([NEW, OLD])


def _use_keys(operated: Operated, *keys: bytes) -> None:
    engines = operated.engines
    operated.engines = Engines(engines.sessions, engines.directory, variable_keys=SealingKeys(keys))


@pytest.fixture
async def repositories(operated: Operated) -> dict[int, str]:
    """The secrets of three repositories by their IDs, which the old key has sealed."""
    _use_keys(operated, OLD)
    secrets = {}
    for slug in ("a", "b", "c"):
        async with operated.engines.sessions() as session, session.begin():
            await create_project(session, operated.account, slug, slug, NOW)
        url = f"https://github.com/acme/{slug}"
        told = await operated.act("repositories/connect", url=url, project_id=slug)
        secrets[told["id"]] = told["webhook"]["secret"]
    return secrets


async def _opened(operated: Operated, keys: SealingKeys) -> dict[int, str]:
    async with operated.engines.sessions() as session:
        rows = [await session.get(SealedWebhookSecret, number) for number in range(1, 10)]
    return {row.repository_id: open_secret(keys, row).value for row in rows if row is not None}


async def _reseal(operated: Operated, keys: SealingKeys, most: int = 500) -> Resealed:
    async with operated.engines.sessions() as session, session.begin():
        return await reseal(session, keys, most)


async def test_webhook_secrets_are_sealed_again_in_batches(
    operated: Operated, repositories: dict[int, str]
) -> None:
    assert await _reseal(operated, BOTH, 2) == Resealed(done=2, left=1)
    assert await _reseal(operated, BOTH, 2) == Resealed(done=1, left=0)
    assert await _reseal(operated, BOTH, 2) == Resealed(done=0, left=0)
    # The old key is needed no more.
    assert await _opened(operated, SealingKeys([NEW])) == repositories


async def test_the_command_seals_them_too(operated: Operated, repositories: dict[int, str]) -> None:
    _use_keys(operated, NEW, OLD)
    told = await operated.act("variables/rotate-key")
    assert (told["resealed"], told["left"]) == (3, 0)


async def test_without_the_old_key_nothing_is_changed(
    operated: Operated, repositories: dict[int, str]
) -> None:
    with pytest.raises(CannotOpen):
        await _reseal(operated, SealingKeys([NEW]))
    assert await _opened(operated, SealingKeys([OLD])) == repositories


@pytest.mark.both_databases
async def test_a_secret_replaced_meanwhile_is_not_restored(
    operated: Operated, repositories: dict[int, str]
) -> None:
    """By a control plane that still has the old key first."""
    number = min(repositories)
    keys = _Watched([NEW, OLD])
    async with operated.engines.sessions() as session, session.begin():
        repository = await session.get_one(Repository, number)
        fresh = WebhookSecret("hmac", "the secret that was made meanwhile")
        await set_secret(session, SealingKeys([OLD]), repository, fresh, NOW)
        # It has read the secret of before, and waits for the end of this.
        resealing = asyncio.create_task(_reseal(operated, keys, 1))
        await keys.opening.wait()
    assert await resealing == Resealed(done=0, left=3)
    assert await _reseal(operated, BOTH) == Resealed(done=3, left=0)
    assert await _opened(operated, SealingKeys([NEW])) == {**repositories, number: fresh.value}


class _Watched(SealingKeys):
    """Keys of which one sees that they are in use."""

    def __init__(self, keys: Any) -> None:
        super().__init__(keys)
        self.opening = asyncio.Event()

    def open(self, sealed: Sealed, environment_id: str) -> dict[str, str]:
        self.opening.set()
        return super().open(sealed, environment_id)
