"""Behaviour of the key directory in Redis only: caches of edges, changes that reach them, Redis unavailable or
empty."""

import asyncio
import contextlib
import random
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from pipeline_contracts.credentials import CredentialKind
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.rate_limits import RateLimit
from storage_backends.key_directory.interface import KeyEntry
from storage_backends.key_directory.redis import RedisKeyDirectory, open_redis_key_directory
from tests.support.engines import or_skip
from tests.support.listed_keys import entries_reader
from tests.support.redis_server import RedisServer, hasty_redis, recorded_attempts, running_redis
from tests.support.tcp_proxy import tcp_proxy
from tests.support.waits import measure_loop_time


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis for this file only: it is stopped, paused and emptied."""
    with or_skip(running_redis(tmp_path_factory.mktemp("faulty-redis"))) as running:
        yield running


class Directories:
    """A control plane and two edges on one Redis."""

    def __init__(self, control: RedisKeyDirectory, edges: list[RedisKeyDirectory]) -> None:
        self.control = control
        self.edges = edges


@pytest.fixture
async def directories(server: RedisServer) -> AsyncIterator[Directories]:
    server.restart()
    async with AsyncExitStack() as exits:
        opened = [await open_redis_key_directory(server.url, follow=n > 0) for n in range(3)]
        for directory in opened:
            exits.push_async_callback(directory.close)
        await opened[0].publish_all(entries_reader([]))
        for edge in opened[1:]:
            await until(lambda edge=edge: edge.unready_reason() is None)
        yield Directories(opened[0], opened[1:])


async def until(holds: object) -> float:
    """Wait until the condition holds; return the seconds for which this process ran meanwhile."""
    async with measure_loop_time() as had, asyncio.timeout(60):
        while True:
            found = holds()  # type: ignore[operator]
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return had()
            await asyncio.sleep(0.02)


def entry() -> KeyEntry:
    return KeyEntry(secrets.token_bytes(32), CredentialKind.INGEST_KEY, "acc", "prj", "env", RateLimit(5, 7))


async def is_refused(edge: RedisKeyDirectory, key: KeyEntry) -> bool:
    """Return True if the edge refuses the key; False while that is unknown."""
    with contextlib.suppress(StorageUnavailable):
        return await edge.find(key.digest) is None
    return False


async def test_a_new_key_works_at_once_even_if_an_edge_refused_it_before(directories: Directories) -> None:
    key = entry()
    for edge in directories.edges:
        # The refusal is cached until the edge reads the change: no timeout is involved.
        stopped = edge._clock()
        edge._clock = lambda now=stopped: now
        assert await edge.find(key.digest) is None
    await directories.control.publish(key)
    for edge in directories.edges:
        await until(lambda edge=edge: _finds(edge, key))


async def _finds(edge: RedisKeyDirectory, key: KeyEntry) -> bool:
    with contextlib.suppress(StorageUnavailable):
        return await edge.find(key.digest) == key
    return False


async def test_a_change_and_a_revocation_reach_every_edge(directories: Directories) -> None:
    key = entry()
    await directories.control.publish(key)
    for edge in directories.edges:
        assert await edge.find(key.digest) == key
    changed = replace(key, limit=RateLimit(50, 70))
    await directories.control.publish(changed)
    for edge in directories.edges:
        await until(lambda edge=edge: _finds(edge, changed))
    await directories.control.revoke(key.digest)
    for edge in directories.edges:
        took = await until(lambda edge=edge: is_refused(edge, key))
        print(f"revoked at an edge after {1000 * took:.0f} ms")


async def test_known_keys_work_without_redis_and_unknown_ones_raise(
    server: RedisServer, directories: Directories
) -> None:
    key, edge = entry(), directories.edges[0]
    await directories.control.publish(key)
    assert await edge.find(key.digest) == key
    server.stop()
    began = time.monotonic()
    while time.monotonic() < began + 3.0:
        assert await edge.find(key.digest) == key
        await asyncio.sleep(0.01)
    # The key is accepted immediately: while Redis is unavailable, only one call at a time waits for it.
    with recorded_attempts(edge._connection) as tries:
        for _ in range(50):
            with pytest.raises(StorageUnavailable):
                await edge.find(secrets.token_bytes(32))
    assert len(tries) <= 1
    server.start()


async def test_an_emptied_redis_refuses_no_key_until_control_has_published_again(
    server: RedisServer, directories: Directories
) -> None:
    key, other, edge = entry(), entry(), directories.edges[0]
    await directories.control.publish_all(entries_reader([key, other]))
    assert await until(lambda: _finds(edge, key)) >= 0
    server.restart()
    began = time.monotonic()
    while time.monotonic() < began + 2.5:
        assert await edge.find(key.digest) == key
        await asyncio.sleep(0.02)
    with pytest.raises(StorageUnavailable):
        await edge.find(other.digest)
    assert not await directories.control.is_complete()
    # Meanwhile the first key was revoked in the database.
    await directories.control.publish_all(entries_reader([other]))
    await until(lambda: _finds(edge, other))
    await until(lambda: is_refused(edge, key))


async def test_a_revocation_during_a_lost_connection_applies_after_reconnecting(
    server: RedisServer, directories: Directories
) -> None:
    key, edge = entry(), directories.edges[0]
    await directories.control.publish(key)
    assert await edge.find(key.digest) == key
    # All connections are cut during the revocation.
    await directories.control.revoke(key.digest)
    client = directories.control._connection.client
    await client.execute_command("CLIENT", "KILL", "SKIPME", "yes", "TYPE", "normal")
    took = await until(lambda: is_refused(edge, key))
    assert took < 5.0, "the lost connection has revealed it"


async def test_a_silently_dead_connection_does_not_keep_a_revoked_key_alive(
    server: RedisServer, directories: Directories
) -> None:
    key = entry()
    await directories.control.publish(key)
    async with tcp_proxy(server.port) as proxy:
        # With the product's short timeouts: the test is about how soon such a connection is dropped.
        with hasty_redis():
            edge = await open_redis_key_directory(f"redis://127.0.0.1:{proxy.port}/0")
        try:
            await until(lambda: edge.unready_reason() is None)
            await until(lambda: _finds(edge, key))
            # One connection follows changes, one looks up keys.
            await until(lambda: proxy.open == 2)
            # The edge's connections are open but silent, as behind a firewall that has dropped their state.
            assert proxy.silence() == 2
            await directories.control.revoke(key.digest)
            took = await until(lambda: is_refused(edge, key))
            print(f"revoked behind a dead connection after {took:.1f} s")
            assert took < 5.0
        finally:
            await edge.close()


async def test_a_revocation_that_was_trimmed_before_it_was_read_applies(directories: Directories) -> None:
    key, edge = entry(), directories.edges[0]
    client = directories.control._connection.client
    await directories.control.publish_all(entries_reader([key]))
    ((newest, _),) = await client.xrevrange("pharos:keys:changes", count=1)
    await until(lambda: _has_read_through(edge, newest))
    assert await edge.find(key.digest) == key
    # Make so many changes that the relevant one is trimmed before the edge reads.
    flood = """
        redis.call('HDEL', 'pharos:keys', ARGV[1])
        redis.call('XADD', 'pharos:keys:changes', '*', 'revoked', ARGV[1])
        for i = 1, 25000 do
          redis.call('XADD', 'pharos:keys:changes', 'MAXLEN', '~', 10000, '*', 'published', i)
        end"""
    await client.eval(flood, 0, key.digest)
    await until(lambda: is_refused(edge, key))


async def test_changes_are_followed_after_redis_was_emptied_and_its_clock_set_back(
    directories: Directories,
) -> None:
    key, edge = entry(), directories.edges[0]
    client = directories.control._connection.client
    # The last change that the edge has read has a time in the year 2286.
    await client.xadd("pharos:keys:changes", {"published": b"x"}, id="9999999999999-0")
    await until(lambda: _has_read_through(edge, b"9999999999999-0"))
    await client.flushall()
    await directories.control.publish_all(entries_reader([key]))
    await until(lambda: _finds(edge, key))
    # Longer than a read: no gap remains to be noticed.
    await asyncio.sleep(1.5)
    assert await edge.find(key.digest) == key
    await directories.control.revoke(key.digest)
    await until(lambda: is_refused(edge, key))


async def _has_read_through(edge: RedisKeyDirectory, change: bytes) -> bool:
    return edge._position == change


async def test_many_concurrent_keys_do_not_look_like_an_unavailable_redis(directories: Directories) -> None:
    keys, edge = [entry() for _ in range(400)], directories.edges[0]
    await directories.control.publish_all(entries_reader(keys))
    assert await asyncio.gather(*(edge.find(key.digest) for key in keys)) == keys
    assert not edge.is_away
    assert edge.cache_sizes() == (400, 0)


async def test_the_caches_are_bounded(server: RedisServer, directories: Directories) -> None:
    edge = RedisKeyDirectory(server.url, follow=True, max_known=50)
    try:
        keys = [entry() for _ in range(200)]
        await directories.control.publish_all(entries_reader(keys))
        await until(lambda: edge._following)
        for key in keys:
            assert await edge.find(key.digest) == key
        for _ in range(200):
            assert await edge.find(secrets.token_bytes(32)) is None
        assert len(edge._known) == 50
        assert len(edge._unknown) <= 10_000
        # The first keys must be looked up again, and are found.
        assert await edge.find(keys[0].digest) == keys[0]
    finally:
        await edge.close()


async def test_a_revocation_is_not_undone_by_a_list_that_was_read_before_it(directories: Directories) -> None:
    key, new, again = entry(), entry(), entry()
    control = directories.control
    await control.publish(key)

    async def read() -> list[KeyEntry]:
        # While the list is written, one key is revoked, another created, and a third revoked and created again.
        await control.revoke(key.digest)
        await control.publish(new)
        await control.revoke(again.digest)
        await control.publish(again)
        return [key]

    assert await control.publish_all(read) == 1
    edge = directories.edges[0]
    await until(lambda: _finds(edge, new))
    await until(lambda: _finds(edge, again))
    assert await is_refused(edge, key)


async def test_a_key_missing_from_the_database_is_removed_even_if_published_recently(
    directories: Directories,
) -> None:
    """A revocation that Redis missed, and a limit that was changed while it was unavailable."""
    revoked, limited, edge = entry(), entry(), directories.edges[0]
    for key in (revoked, limited):
        await directories.control.publish(key)
        await until(lambda key=key: _finds(edge, key))
    changed = replace(limited, limit=RateLimit(1, 1))
    await directories.control.publish_all(entries_reader([changed]))
    await until(lambda: is_refused(edge, revoked))
    await until(lambda: _finds(edge, changed))


async def test_a_list_that_was_read_earlier_does_not_replace_a_later_one(
    server: RedisServer, directories: Directories
) -> None:
    revoked, new = entry(), entry()
    other = await open_redis_key_directory(server.url, follow=False)
    try:
        await other.publish(revoked)

        async def read_slowly() -> list[KeyEntry]:
            # Another control plane publishes all concurrent changes, and deletes the changes before its list.
            await other.revoke(revoked.digest)
            await other.publish(new)
            await other.publish_all(entries_reader([new]))
            return [revoked]

        await directories.control.publish_all(read_slowly)
        await until(lambda: _finds(directories.edges[0], new))
        assert await is_refused(directories.edges[0], revoked)
        # The next publication of the slow control plane counts again.
        await directories.control.publish_all(entries_reader([]))
        await until(lambda: is_refused(directories.edges[0], new))
    finally:
        await other.close()


@pytest.mark.parametrize("loss", ["emptied", "set back"])
async def test_a_list_does_not_replace_the_directory_of_a_redis_that_lost_data(
    directories: Directories, loss: str
) -> None:
    control, key = directories.control, entry()
    client = control._connection.client

    async def read() -> list[KeyEntry]:
        if loss == "emptied":
            await client.flushall()
        else:
            await client.hincrby("pharos:keys:order", "number", -1)
        return [key]

    with pytest.raises(StorageUnavailable):
        await control.publish_all(read)
    assert not await control.is_complete()
    await control.publish_all(entries_reader([key]))
    assert await control.is_complete()
    await until(lambda: _finds(directories.edges[0], key))


async def test_a_revoked_key_is_removed_even_if_redis_lost_the_order_of_changes(
    directories: Directories,
) -> None:
    """After an eviction, the numbers of changes restart."""
    ended, key = entry(), entry()
    for _ in range(5):
        await directories.control.publish(key)
    await directories.control.publish(ended)
    await directories.control._connection.client.delete("pharos:keys:order")
    await directories.control.publish_all(entries_reader([key]))
    assert await is_refused(directories.control, ended) and await _finds(directories.control, key)


async def test_a_user_without_access_to_info_can_publish(
    server: RedisServer, directories: Directories
) -> None:
    rules = ("on", ">secret", "~*", "&*", "+@all", "-@dangerous")
    await directories.control._connection.client.execute_command("ACL", "SETUSER", "pharos", *rules)
    control = await open_redis_key_directory(f"redis://pharos:secret@127.0.0.1:{server.port}/0", follow=False)
    key = entry()
    await control.publish_all(entries_reader([key]))
    assert await control.is_complete()
    await control.close()
    await until(lambda: _finds(directories.edges[0], key))


@pytest.mark.parametrize("seed", range(4))
async def test_no_order_of_commits_publications_and_failures_keeps_a_revoked_key(
    server: RedisServer, directories: Directories, seed: int
) -> None:
    """Two control planes create, revoke and publish; some changes are never published, others late."""
    chance = random.Random(seed)
    other = await open_redis_key_directory(server.url, follow=False)
    planes = [directories.control, other]
    database: dict[bytes, KeyEntry] = {}
    late: list[tuple[bytes, KeyEntry | None]] = []
    lists: list[tuple[asyncio.Event, asyncio.Task[int]]] = []

    async def publish_all(plane: RedisKeyDirectory, go_on: asyncio.Event, began: asyncio.Event) -> int:
        async def read() -> list[KeyEntry]:
            entries = list(database.values())
            began.set()
            await go_on.wait()
            return entries

        return await plane.publish_all(read)

    async def notify(digest: bytes, now: KeyEntry | None) -> None:
        plane = chance.choice(planes)
        await (plane.revoke(digest) if now is None else plane.publish(now))

    try:
        for _ in range(150):
            step = chance.choice(("create", "revoke", "late", "begin", "place"))
            change: tuple[bytes, KeyEntry | None] | None = None
            if step == "create":
                new = entry()
                database[new.digest] = new
                change = (new.digest, new)
            elif step == "revoke" and database:
                digest = chance.choice(list(database))
                del database[digest]
                change = (digest, None)
            elif step == "late" and late:
                await notify(*late.pop(chance.randrange(len(late))))
            elif step == "begin" and len(lists) < 2:
                go_on, began = asyncio.Event(), asyncio.Event()
                lists.append((go_on, asyncio.create_task(publish_all(chance.choice(planes), go_on, began))))
                await began.wait()
            elif step == "place" and lists:
                go_on, task = lists.pop(chance.randrange(len(lists)))
                go_on.set()
                await task
            if change is not None:
                fate = chance.choice(("told", "told", "late", "never"))
                if fate == "told":
                    await notify(*change)
                elif fate == "late":
                    late.append(change)
        for go_on, task in lists:
            go_on.set()
            await task
        for change in late:
            await notify(*change)
        # Publish all keys of the database once, after any earlier publications.
        await other.publish_all(entries_reader(list(database.values())))
        client = other._connection.client
        assert set(await client.hkeys("pharos:keys")) == set(database)
        assert await client.zcard("pharos:keys:revoked-since") == 0
        assert await client.zcard("pharos:keys:published-since") == 0
    finally:
        await other.close()


async def test_several_control_planes_can_publish_concurrently(
    server: RedisServer, directories: Directories
) -> None:
    keys = [entry() for _ in range(3000)]
    others = [await open_redis_key_directory(server.url, follow=False) for _ in range(3)]
    await asyncio.gather(
        *(control.publish_all(entries_reader(keys)) for control in [directories.control, *others])
    )
    for control in others:
        await control.close()
    edge = directories.edges[0]
    for key in keys[::100]:
        assert await edge.find(key.digest) == key
    names = await directories.control._connection.client.keys("pharos:keys*")
    assert len(names) <= 6, f"lists were left behind: {names}"


async def test_a_hundred_thousand_keys_are_published_in_seconds(
    server: RedisServer, directories: Directories
) -> None:
    keys = [entry() for _ in range(100_000)]
    # No call may exceed the product's timeout. On a slow machine the publication is repeated, as the control plane
    # does.
    with hasty_redis():
        control = await open_redis_key_directory(server.url, follow=False)

    async def published() -> bool:
        with contextlib.suppress(StorageUnavailable):
            await control.publish_all(entries_reader(keys))
            return True
        return False

    print(f"100,000 keys in {await until(published):.1f} s")
    await control.close()
    assert await directories.edges[0].find(keys[-1].digest) == keys[-1]


async def test_a_lookup_that_a_change_has_overtaken_is_not_cached(directories: Directories) -> None:
    key, edge = entry(), directories.edges[0]
    await directories.control.publish(key)
    asking = asyncio.create_task(edge.find(key.digest))
    await asyncio.sleep(0)
    # The change arrives between the request and its response.
    edge._apply_change({b"revoked": key.digest})
    await asking
    assert key.digest not in edge._known


async def test_concurrent_requests_with_one_key_share_a_lookup(directories: Directories) -> None:
    key, edge = entry(), directories.edges[0]
    await directories.control.publish(key)
    client = directories.control._connection.client
    before = (await client.info("commandstats")).get("cmdstat_hget", {"calls": 0})["calls"]
    finding = [asyncio.create_task(edge.find(key.digest)) for _ in range(50)]
    await asyncio.sleep(0)
    finding[0].cancel()
    found = await asyncio.gather(*finding, return_exceptions=True)
    assert found[1:] == [key] * 49
    assert (await client.info("commandstats"))["cmdstat_hget"]["calls"] - before <= 1
