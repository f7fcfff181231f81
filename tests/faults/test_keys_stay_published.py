"""The control plane keeps the keys published while either of its two engines is unavailable."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from control_domain.database.engine import open_sessions
from control_domain.database.errors import DatabaseUnavailable
from control_workers.publish_keys import publish_keys_periodically
from pipeline_contracts.credentials import digest_credential
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.key_directory.redis import RedisKeyDirectory, open_redis_key_directory
from tests.support.accounts import make_acme, migrated
from tests.support.added_objects import ObjectAdder
from tests.support.engines import or_skip
from tests.support.redis_server import RedisServer, running_redis

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with or_skip(running_redis(tmp_path_factory.mktemp("lost-redis"))) as running:
        yield running


class Database:
    """Opens sessions, or fails like an unavailable database."""

    def __init__(self, sessions: async_sessionmaker[AsyncSession]) -> None:
        self._sessions = sessions
        self.away = False
        self.uses = 0

    def __call__(self) -> AsyncSession:
        self.uses += 1
        if self.away:
            raise DatabaseUnavailable("The database does not answer now.")
        return self._sessions()


class Control:
    """A control plane that publishes keys, and an edge."""

    def __init__(self, database: Any, directory: RedisKeyDirectory, edge: RedisKeyDirectory) -> None:
        self.database = database
        self.directory = directory
        self.edge = edge

    async def new_key(self) -> tuple[int, bytes]:
        key = await ObjectAdder(self.database, self.directory).add_ingest_key()
        return key.id, digest_credential(key.secret)

    async def revoke_key(self, key_id: int) -> None:
        await ObjectAdder(self.database, self.directory).revoke_ingest_key(key_id)

    async def accepts_key(self, digest: bytes) -> bool | None:
        """Return True if the edge accepts the key; None while that is unknown."""
        try:
            return await self.edge.find(digest) is not None
        except StorageUnavailable:
            return None

    async def is_complete(self) -> bool | None:
        """Return True if Redis has all keys; None while that is unknown."""
        try:
            return await self.directory.is_complete()
        except StorageUnavailable:
            return None


@pytest.fixture
async def control(server: RedisServer, tmp_path: Path) -> AsyncIterator[Control]:
    server.restart()
    async with AsyncExitStack() as stack:
        url = f"sqlite+aiosqlite:///{tmp_path / 'control.sqlite'}"
        engine = await stack.enter_async_context(migrated(url))
        sessions = open_sessions(engine)
        async with sessions() as session, session.begin():
            await make_acme(session, NOW)
        directory = await open_redis_key_directory(server.url, follow=False)
        stack.push_async_callback(directory.close)
        edge = await open_redis_key_directory(server.url)
        stack.push_async_callback(edge.close)
        database: Any = Database(sessions)
        stop = asyncio.Event()
        keeping = asyncio.create_task(
            publish_keys_periodically(database, directory, stop, every=0.05, repeat_seconds=86_400)
        )
        yield Control(database, directory, edge)
        stop.set()
        await asyncio.wait_for(keeping, 60)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + 60
    while not await holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def test_all_keys_are_published_again_after_redis_was_emptied(
    server: RedisServer, control: Control
) -> None:
    await until(lambda: _is(control.is_complete(), True))
    _, used = await control.new_key()
    _, unused = await control.new_key()
    revoked_id, revoked = await control.new_key()
    await until(lambda: _is(control.accepts_key(used), True))
    await until(lambda: _is(control.accepts_key(revoked), True))
    server.stop()
    # Revoked while Redis was unavailable.
    with pytest.raises(StorageUnavailable):
        await control.revoke_key(revoked_id)
    server.start()
    # No key is refused meanwhile: missing keys are not the same as unknown keys.
    async with asyncio.timeout(60):
        while (found := await control.accepts_key(unused)) is not True:
            assert found is None
            assert await control.accepts_key(used) is True
            await asyncio.sleep(0.01)
    assert await control.accepts_key(used) is True
    await until(lambda: _is(control.accepts_key(revoked), False))


@pytest.mark.parametrize("outage", ["away", "set back"])
async def test_a_key_revoked_during_an_outage_is_removed_when_redis_returns_with_old_data(
    server: RedisServer, control: Control, outage: str
) -> None:
    """The next regular publication is a day away: an outage or another run of Redis starts one."""
    await until(lambda: _is(control.is_complete(), True))
    kept_id, kept = await control.new_key()
    revoked_id, revoked = await control.new_key()
    for digest in (kept, revoked):
        await until(lambda digest=digest: _is(control.accepts_key(digest), True))
    await control.directory._connection.client.save()
    if outage == "away":
        server.stop()
        with pytest.raises(StorageUnavailable):
            await control.revoke_key(revoked_id)
    else:
        # This is the state after a failover to a replica without the last changes.
        await control.revoke_key(revoked_id)
        server.stop()
    server.start()
    await until(lambda: _is(control.accepts_key(revoked), False))
    await until(lambda: _is(control.accepts_key(kept), True))
    (server.folder / "dump.rdb").unlink(missing_ok=True)


async def test_publishing_continues_through_outages_and_logs_each_once(
    server: RedisServer, control: Control, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "control_workers.publish_keys")
    await until(lambda: _is(control.is_complete(), True))
    _, digest = await control.new_key()
    server.stop()
    await until(lambda: _has_logged(caplog, 1))
    # Twenty more attempts.
    await asyncio.sleep(1.0)
    server.start()
    await until(lambda: _is(control.accepts_key(digest), True))
    # Until an iteration has succeeded, the next outage continues this one. An iteration uses the database at most
    # twice.
    used = control.database.uses
    await until(lambda: _is(_immediately(control.database.uses >= used + 5), True))
    control.database.away = True
    server.restart()
    await until(lambda: _has_logged(caplog, 2))
    await asyncio.sleep(1.0)
    await until(lambda: _is(control.is_complete(), False))
    control.database.away = False
    await until(lambda: _is(control.is_complete(), True))
    await until(lambda: _is(control.accepts_key(digest), True))
    outages = [r for r in caplog.records if r.name == "control_workers.publish_keys"]
    # The second restart may first look like an outage of Redis; there is never one log line per attempt.
    assert 2 <= len(outages) <= 3


async def _immediately(found: bool) -> bool:
    return found


async def _is(found: Awaitable[bool | None], expected: bool) -> bool:
    return await found is expected


async def _has_logged(caplog: pytest.LogCaptureFixture, times: int) -> bool:
    return len([r for r in caplog.records if r.name == "control_workers.publish_keys"]) >= times


async def test_publishing_starts_without_redis_and_stops_on_request(
    server: RedisServer, tmp_path: Path
) -> None:
    server.stop()
    directory = await open_redis_key_directory(server.url, follow=False)
    database: Any = Database(async_sessionmaker())
    database.away = True
    stop = asyncio.Event()
    keeping = asyncio.create_task(publish_keys_periodically(database, directory, stop, every=30.0))
    await asyncio.sleep(0.1)
    assert not keeping.done()
    stop.set()
    await asyncio.wait_for(keeping, 60)
    await directory.close()
    server.start()
