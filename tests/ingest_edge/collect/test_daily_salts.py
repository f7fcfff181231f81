"""The salts that an edge keeps, with a moved clock."""

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


class _Away(FileSalts):
    """As those in the file; while `away` they do not answer."""

    away = False

    async def find_or_create(self, day: int, now_ms: int, offer: bytes | None = None) -> bytes | None:
        if self.away:
            raise StorageUnavailable("away")
        return await super().find_or_create(day, now_ms, offer)


async def test_an_edge_has_the_salts_of_today_and_yesterday(tmp_path: Path) -> None:
    salts = DailySalts(FileSalts(tmp_path / "salts.json"))
    assert sorted(await salts.around(_NOON_MS)) == [_DAY - 1, _DAY]


async def test_shortly_before_midnight_it_has_tomorrows_too(tmp_path: Path) -> None:
    salts = DailySalts(FileSalts(tmp_path / "salts.json"))
    midnight_ms = (_DAY + 1) * DAY_MS
    assert _DAY + 1 not in await salts.around(midnight_ms - 6 * _MINUTE_MS)
    ahead = (await salts.around(midnight_ms - 5 * _MINUTE_MS))[_DAY + 1]
    assert (await salts.around(midnight_ms))[_DAY + 1] == ahead


async def test_a_visitor_is_the_same_within_a_day_and_another_the_next(tmp_path: Path) -> None:
    salts = DailySalts(FileSalts(tmp_path / "salts.json"))

    async def visitor(now_ms: int) -> int:
        day = now_ms // DAY_MS
        hashes = VisitorHashes(await salts.around(now_ms), 1, "203.0.113.7", "Firefox")
        return hashes.visitor(day, None)

    assert await visitor(_NOON_MS) == await visitor(_NOON_MS + 11 * 60 * _MINUTE_MS)
    assert await visitor(_NOON_MS) != await visitor(_NOON_MS + DAY_MS)


async def test_a_salt_that_is_48_hours_old_is_deleted_everywhere(tmp_path: Path) -> None:
    path = tmp_path / "salts.json"
    salts = DailySalts(FileSalts(path))
    old = dict(await salts.around(_NOON_MS))
    assert _DAY in await salts.around((_DAY + 2) * DAY_MS - 1)
    later = await salts.around((_DAY + 2) * DAY_MS)
    assert sorted(later) == [_DAY + 1, _DAY + 2]
    assert all(salt.hex() not in path.read_text() for salt in old.values())


async def test_without_todays_salt_nothing_is_taken_and_with_it_an_outage_changes_nothing(
    tmp_path: Path,
) -> None:
    engine = _Away(tmp_path / "salts.json")
    salts = DailySalts(engine)
    engine.away = True
    with pytest.raises(Unavailable):
        await salts.around(_NOON_MS)
    engine.away = False
    known = dict(await salts.around(_NOON_MS))
    engine.away = True
    assert await salts.around(_NOON_MS + 10 * _MINUTE_MS) == known
    with pytest.raises(Unavailable):
        await salts.around(_NOON_MS + DAY_MS)


async def test_edges_agree_again_after_the_engine_was_emptied(tmp_path: Path) -> None:
    path = tmp_path / "salts.json"
    mine = DailySalts(FileSalts(path))
    known = dict(await mine.around(_NOON_MS))
    path.unlink()
    # Another edge has made new ones meanwhile; this one learns of them when it compares.
    emptied = FileSalts(path)
    mine._salts = emptied
    theirs = await DailySalts(emptied).around(_NOON_MS)
    assert theirs != known
    assert await mine.around(_NOON_MS + _MINUTE_MS) == theirs


async def test_an_emptied_engine_takes_the_salts_that_an_edge_has(tmp_path: Path) -> None:
    path = tmp_path / "salts.json"
    salts = DailySalts(FileSalts(path))
    known = dict(await salts.around(_NOON_MS))
    path.unlink()
    salts._salts = FileSalts(path)
    assert await salts.around(_NOON_MS + _MINUTE_MS) == known
    assert await DailySalts(FileSalts(path)).around(_NOON_MS + _MINUTE_MS) == known


async def test_old_salts_go_while_nobody_sends_anything(tmp_path: Path) -> None:
    path = tmp_path / "salts.json"
    salts = DailySalts(FileSalts(path))
    old = dict(await salts.around(_NOON_MS))
    async with salts.forgetting(lambda: _NOON_MS + 2 * DAY_MS, every=0.01), asyncio.timeout(60):
        while any(salt.hex() in path.read_text() for salt in old.values()):
            await asyncio.sleep(0.01)


class _Slow(FileSalts):
    """As those in the file, after a moment; counts the questions."""

    asked = 0

    async def find_or_create(self, day: int, now_ms: int, offer: bytes | None = None) -> bytes | None:
        self.asked += 1
        await asyncio.sleep(0.01)
        return await super().find_or_create(day, now_ms, offer)


async def test_no_request_of_a_new_day_goes_on_without_its_salt(tmp_path: Path) -> None:
    engine = _Slow(tmp_path / "salts.json")
    salts = DailySalts(engine)
    await salts.around(_NOON_MS)
    asked = engine.asked
    found = await asyncio.gather(*(salts.around(_NOON_MS + DAY_MS) for _ in range(50)))
    assert all(_DAY + 1 in one for one in found)
    assert engine.asked - asked == 2


async def test_while_one_request_compares_the_others_do_not_wait(tmp_path: Path) -> None:
    engine = _Slow(tmp_path / "salts.json")
    salts = DailySalts(engine)
    await salts.around(_NOON_MS)
    comparing = asyncio.create_task(salts.around(_NOON_MS + _MINUTE_MS))
    await asyncio.sleep(0)
    async with asyncio.timeout(0.005):
        await salts.around(_NOON_MS + _MINUTE_MS)
    await comparing
