"""Behaviour of all stores of salts."""

import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from redis.asyncio import Redis

from pipeline_contracts.times import DAY_MS
from storage_backends.salts.in_file import FileSalts
from storage_backends.salts.interface import LIFETIME_MS, SALT_BYTES, Salts
from storage_backends.salts.redis import open_redis_salts

Open = Callable[[], Awaitable[Salts]]
_TODAY = 20_778
_NOW_MS = _TODAY * DAY_MS + DAY_MS // 2


@pytest.fixture(params=["file", "redis"])
async def open_salts(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Open]:
    """Opens the store repeatedly, as restarts and other edges do."""
    opened: list[Salts] = []
    url = None if request.param == "file" else request.getfixturevalue("redis_url")
    if url is not None:
        await _empty(url)

    async def reopen() -> Salts:
        salts = FileSalts(tmp_path / "salts.json") if url is None else await open_redis_salts(url)
        opened.append(salts)
        return salts

    yield reopen
    for salts in opened:
        await salts.close()


async def _empty(url: str) -> None:
    async with Redis.from_url(url) as client:
        if keys := await client.keys("pharos:salt:*"):
            await client.delete(*keys)


async def test_a_day_keeps_its_salt_over_a_restart(open_salts: Open) -> None:
    first = await open_salts()
    salt = await first.find_or_create(_TODAY, _NOW_MS)
    assert salt is not None and len(salt) == SALT_BYTES
    assert await first.find_or_create(_TODAY, _NOW_MS) == salt
    assert await (await open_salts()).find_or_create(_TODAY, _NOW_MS) == salt


async def test_every_day_has_a_salt_of_its_own(open_salts: Open) -> None:
    salts = await open_salts()
    found = {await salts.find_or_create(day, _NOW_MS) for day in (_TODAY - 1, _TODAY, _TODAY + 1)}
    assert len(found) == 3


async def test_a_salt_is_deleted_48_hours_after_its_day_began(open_salts: Open) -> None:
    salts = await open_salts()
    kept = await salts.find_or_create(_TODAY, _NOW_MS)
    end_ms = _TODAY * DAY_MS + LIFETIME_MS
    await salts.delete_expired(end_ms - 1)
    assert await salts.find_or_create(_TODAY, end_ms - 1) == kept
    await salts.delete_expired(end_ms)
    assert await salts.find_or_create(_TODAY, end_ms) is None
    # If the clock goes back, the day gets a new salt.
    assert await (await open_salts()).find_or_create(_TODAY, _NOW_MS) != kept


async def test_an_emptied_engine_takes_the_salt_of_an_edge(open_salts: Open) -> None:
    salts = await open_salts()
    offered = uuid.uuid4().bytes
    assert await salts.find_or_create(_TODAY, _NOW_MS, offered) == offered
    assert await salts.find_or_create(_TODAY, _NOW_MS, uuid.uuid4().bytes) == offered


async def test_only_the_owner_can_read_the_file_and_it_has_no_old_salt(tmp_path: Path) -> None:
    path = tmp_path / "salts.json"
    salts = FileSalts(path)
    old = await salts.find_or_create(_TODAY, _NOW_MS)
    assert old is not None and old.hex() in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    await salts.delete_expired(_NOW_MS + LIFETIME_MS)
    assert old.hex() not in path.read_text()


async def test_redis_expires_a_salt(redis_url: str) -> None:
    await _empty(redis_url)
    salts = await open_redis_salts(redis_url)
    created = time.monotonic()
    try:
        await salts.find_or_create(_TODAY, _NOW_MS)
    finally:
        await salts.close()
    async with Redis.from_url(redis_url) as client:
        left_ms = await client.pttl(f"pharos:salt:{_TODAY}")
    took_ms = (time.monotonic() - created) * 1000
    assert LIFETIME_MS - DAY_MS // 2 - took_ms - 100 < left_ms <= LIFETIME_MS - DAY_MS // 2
