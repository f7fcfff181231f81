"""The salts that an edge caches, with a simulated clock."""

import asyncio
from pathlib import Path

import pytest

from ingest_edge.collect.daily_salts import DailySalts
from ingest_edge.collect.visitors import VisitorHashes
from pipeline_contracts.errors import StorageUnavailable, Unavailable
from pipeline_contracts.times import DAY_MS
from storage_backends.salts.in_file import FileSalts

_DAY = 20_778
_NOON_MS = _DAY * DAY_MS + DAY_MS // 2
_MINUTE_MS = 60_000


class _UnreachableSalts(FileSalts):
    """Salts in a file, unreachable while `away`."""

    away = False

    async def find_or_create(self, day: int, now_ms: int, offer: bytes | None = None) -> bytes | None:
        if self.away:
            raise StorageUnavailable("away")
        return await super().find_or_create(day, now_ms, offer)


async def test_an_edge_has_the_salts_of_today_and_yesterday(tmp_path: Path) -> None:
    salts = DailySalts(FileSalts(tmp_path / "salts.json"))
    assert sorted(await salts.get(_NOON_MS)) == [_DAY - 1, _DAY]


async def test_edge_has_tomorrows_salt_shortly_before_midnight(tmp_path: Path) -> None:
    salts = DailySalts(FileSalts(tmp_path / "salts.json"))
    midnight_ms = (_DAY + 1) * DAY_MS
    assert _DAY + 1 not in await salts.get(midnight_ms - 6 * _MINUTE_MS)
    ahead = (await salts.get(midnight_ms - 5 * _MINUTE_MS))[_DAY + 1]
    assert (await salts.get(midnight_ms))[_DAY + 1] == ahead


async def test_visitor_hash_is_stable_within_a_day_and_changes_the_next(tmp_path: Path) -> None:
    salts = DailySalts(FileSalts(tmp_path / "salts.json"))

    async def visitor(now_ms: int) -> int:
        day = now_ms // DAY_MS
        hashes = VisitorHashes(await salts.get(now_ms), 1, "203.0.113.7", "Firefox")
        return hashes.visitor(day, None)

    assert await visitor(_NOON_MS) == await visitor(_NOON_MS + 11 * 60 * _MINUTE_MS)
    assert await visitor(_NOON_MS) != await visitor(_NOON_MS + DAY_MS)


async def test_a_salt_that_is_48_hours_old_is_deleted_everywhere(tmp_path: Path) -> None:
    path = tmp_path / "salts.json"
    salts = DailySalts(FileSalts(path))
    old = dict(await salts.get(_NOON_MS))
    assert _DAY in await salts.get((_DAY + 2) * DAY_MS - 1)
    later = await salts.get((_DAY + 2) * DAY_MS)
    assert sorted(later) == [_DAY + 1, _DAY + 2]
    assert all(salt.hex() not in path.read_text() for salt in old.values())


async def test_outage_matters_only_without_a_cached_salt(
    tmp_path: Path,
) -> None:
    engine = _UnreachableSalts(tmp_path / "salts.json")
    salts = DailySalts(engine)
    engine.away = True
    with pytest.raises(Unavailable):
        await salts.get(_NOON_MS)
    engine.away = False
    known = dict(await salts.get(_NOON_MS))
    engine.away = True
    assert await salts.get(_NOON_MS + 10 * _MINUTE_MS) == known
    with pytest.raises(Unavailable):
        await salts.get(_NOON_MS + DAY_MS)


async def test_edges_agree_again_after_the_engine_was_emptied(tmp_path: Path) -> None:
    path = tmp_path / "salts.json"
    mine = DailySalts(FileSalts(path))
    known = dict(await mine.get(_NOON_MS))
    path.unlink()
    # Another edge has created new salts meanwhile; this edge gets them at its next comparison.
    emptied = FileSalts(path)
    mine._salts = emptied
    theirs = await DailySalts(emptied).get(_NOON_MS)
    assert theirs != known
    assert await mine.get(_NOON_MS + _MINUTE_MS) == theirs


async def test_emptied_engine_gets_the_cached_salts_of_an_edge(tmp_path: Path) -> None:
    path = tmp_path / "salts.json"
    salts = DailySalts(FileSalts(path))
    known = dict(await salts.get(_NOON_MS))
    path.unlink()
    salts._salts = FileSalts(path)
    assert await salts.get(_NOON_MS + _MINUTE_MS) == known
    assert await DailySalts(FileSalts(path)).get(_NOON_MS + _MINUTE_MS) == known


async def test_expired_salts_are_deleted_without_traffic(tmp_path: Path) -> None:
    path = tmp_path / "salts.json"
    salts = DailySalts(FileSalts(path))
    old = dict(await salts.get(_NOON_MS))
    async with salts.delete_periodically(lambda: _NOON_MS + 2 * DAY_MS, every=0.01), asyncio.timeout(60):
        while any(salt.hex() in path.read_text() for salt in old.values()):
            await asyncio.sleep(0.01)


class _SlowSalts(FileSalts):
    """Salts in a file, returned after a delay. Counts the calls."""

    asked = 0

    async def find_or_create(self, day: int, now_ms: int, offer: bytes | None = None) -> bytes | None:
        self.asked += 1
        await asyncio.sleep(0.01)
        return await super().find_or_create(day, now_ms, offer)


async def test_requests_of_a_new_day_wait_for_its_salt(tmp_path: Path) -> None:
    engine = _SlowSalts(tmp_path / "salts.json")
    salts = DailySalts(engine)
    await salts.get(_NOON_MS)
    asked = engine.asked
    found = await asyncio.gather(*(salts.get(_NOON_MS + DAY_MS) for _ in range(50)))
    assert all(_DAY + 1 in one for one in found)
    assert engine.asked - asked == 2


async def test_other_requests_do_not_wait_for_a_comparison(tmp_path: Path) -> None:
    engine = _SlowSalts(tmp_path / "salts.json")
    salts = DailySalts(engine)
    await salts.get(_NOON_MS)
    comparing = asyncio.create_task(salts.get(_NOON_MS + _MINUTE_MS))
    await asyncio.sleep(0)
    async with asyncio.timeout(0.005):
        await salts.get(_NOON_MS + _MINUTE_MS)
    await comparing
