"""Behaviour of every key directory. A new engine is one more parameter of the fixture."""

import secrets
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest

from pipeline_contracts.credentials import CredentialKind
from pipeline_contracts.rate_limits import RateLimit
from storage_backends.key_directory.in_process import InProcessKeyDirectory
from storage_backends.key_directory.interface import KeyDirectory, KeyEntry, SiteEntry
from storage_backends.key_directory.redis import open_redis_key_directory
from tests.support.engines import or_skip
from tests.support.listed_keys import entries_reader
from tests.support.redis_server import RedisServer, running_redis


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis for this file only: its tests replace all keys."""
    with or_skip(running_redis(tmp_path_factory.mktemp("keys-redis"))) as server:
        yield server


@pytest.fixture(params=["in-process", "redis", "redis, not followed"])
async def directory(request: pytest.FixtureRequest, redis_server: RedisServer) -> AsyncIterator[KeyDirectory]:
    """Does not follow changes, like a directory in the control plane, or in an edge that has not connected for changes
    yet."""
    if request.param == "in-process":
        yield InProcessKeyDirectory()
        return
    redis_server.restart()
    opened = await open_redis_key_directory(redis_server.url, follow=request.param == "redis")
    await opened.publish_all(entries_reader([]))
    yield opened
    await opened.close()


def entry() -> KeyEntry:
    """Return a key that no other test has."""
    return KeyEntry(
        secrets.token_bytes(32),
        CredentialKind.INGEST_KEY,
        "acc",
        "prj",
        "env",
        RateLimit(1.5, 7),
        1_800_000_000_123,
        may_create=True,
        is_application_key=True,
    )


async def test_a_published_key_is_found_until_it_is_revoked(directory: KeyDirectory) -> None:
    key = entry()
    assert await directory.find(key.digest) is None
    await directory.publish(key)
    assert await directory.find(key.digest) == key
    changed = replace(key, limit=RateLimit(2, 2), expires_ms=None)
    await directory.publish(changed)
    assert await directory.find(key.digest) == changed
    await directory.revoke(key.digest)
    await directory.revoke(key.digest)
    assert await directory.find(key.digest) is None


async def test_a_site_is_found_with_its_origins(directory: KeyDirectory) -> None:
    origins = ("https://shop.example", "https://*.blog.example")
    site = replace(entry(), kind=CredentialKind.SITE, environment_id="", site=SiteEntry(7, origins))
    await directory.publish(site)
    assert await directory.find(site.digest) == site
    changed = replace(site, site=SiteEntry(7, origins[:1]))
    await directory.publish(changed)
    assert await directory.find(site.digest) == changed


async def test_all_keys_are_replaced_at_once(directory: KeyDirectory) -> None:
    old, kept, new = entry(), entry(), entry()
    await directory.publish_all(entries_reader([old, kept]))
    assert [await directory.find(key.digest) for key in (old, kept, new)] == [old, kept, None]
    await directory.publish_all(entries_reader([kept, new]))
    assert [await directory.find(key.digest) for key in (old, kept, new)] == [None, kept, new]
    assert await directory.is_complete()


async def test_changes_during_the_read_of_the_list_are_kept_and_other_keys_removed(
    directory: KeyDirectory,
) -> None:
    revoked, ended, kept, new = entry(), entry(), entry(), entry()
    for key in (revoked, ended):
        await directory.publish(key)

    async def read() -> list[KeyEntry]:
        listed = [revoked, kept]
        await directory.revoke(revoked.digest)
        await directory.publish(new)
        return listed

    assert await directory.publish_all(read) == 2
    keys = (revoked, ended, kept, new)
    assert [await directory.find(key.digest) for key in keys] == [None, None, kept, new]


async def test_a_directory_without_keys_is_complete_after_publishing_an_empty_list(
    directory: KeyDirectory,
) -> None:
    await directory.publish_all(entries_reader([]))
    assert await directory.is_complete()
    assert await directory.find(entry().digest) is None
