"""The rollup of today, updated from the changed visits, has the same rows as a complete computation."""

import random
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from analytics_queries.visits.calendar_days import day_of
from analytics_queries.visits.daily_rollups import DailyRollups, StaleRollup, check_rollups
from analytics_queries.visits.refresh_rollups import refresh_rollups, refresh_stale_rollups
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from tests.analytics_queries.oracle.sent import Sent
from tests.analytics_queries.oracle.traffic import random_traffic
from tests.support.site_traffic import make_records, store_records

_ZONES = ("Europe/Oslo", "America/New_York", "Pacific/Auckland", "Asia/Kathmandu", "UTC")
_NOW = datetime(2026, 11, 20, 14, 30, tzinfo=UTC)
# Arrays are unordered, but the arrays of pages belong together.
_ROWS = """
SELECT
    * EXCEPT (run, told_at, events, day_events, pages, page_views, page_times, other_pages, actions, vitals),
    arraySort(arrayZip(pages, page_views, arrayMap(times -> arraySort(times), page_times))) AS pages_of_day,
    arraySort(other_pages), arraySort(actions), arraySort(vitals)
FROM pharos.{table:Identifier}
WHERE site_id = {site:UInt64} AND run = {run:UInt64}
ORDER BY visit_id
"""


class _WatchedStore:
    """The store. It counts updates, and can omit marks, so that rollup runs stay uncommitted."""

    def __init__(self, store: ChdbColumnStore, *, leaves_out_marks: bool = False) -> None:
        self._store = store
        self._leaves_out_marks = leaves_out_marks
        self.updates = 0

    async def command(self, sql: str, parameters: Any = None) -> None:
        self.updates += "changed AS MATERIALIZED" in sql
        if not (self._leaves_out_marks and "INSERT INTO pharos.told_days" in sql):
            await self._store.command(sql, parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def _rows(
    store: ChdbColumnStore, site: int, run: int, table: str = "open_visit_days"
) -> list[Mapping[str, Any]]:
    return (await store.query(_ROWS, {"table": table, "site": site, "run": run})).records()


async def _compute_from_nothing(
    store: ChdbColumnStore, site: int, zone: str, day: date, now: datetime
) -> list[Mapping[str, Any]]:
    """Compute the rows with the statement for past days."""
    unnamed: Any = _WatchedStore(store, leaves_out_marks=True)
    rollups = DailyRollups({}, [StaleRollup(day, 0, 1, is_open=False)])
    runs = await refresh_stale_rollups(unnamed, site, zone, rollups, now)
    return await _rows(store, site, runs[day], "visit_days")


async def _check(
    watched: Any, store: ChdbColumnStore, site: int, zone: str, now: datetime
) -> list[Mapping[str, Any]]:
    """Refresh the rollup of today if it is stale, and compare its rows; return them."""
    today = day_of(now, zone)
    if not (await check_rollups(store, site, zone, [today], now)).stale:
        return []
    runs = await refresh_rollups(watched, site, zone, [today], now)
    rows = await _rows(store, site, runs[today])
    assert rows == await _compute_from_nothing(store, site, zone, today, now)
    return rows


# `make test` has a zone behind UTC and one ahead of it.
_SEEDS = [seed if seed in (1, 2) else pytest.param(seed, marks=pytest.mark.full) for seed in range(20)]


@pytest.mark.parametrize("seed", _SEEDS)
async def test_updates_equal_a_computation_from_nothing(seed: int, column_store: ChdbColumnStore) -> None:
    rng = random.Random(seed)
    site, zone = 25_000 + seed, _ZONES[seed % len(_ZONES)]
    sent = [event for event in random_traffic(rng, zone, _NOW) if event.received_ms > 1_720_000_000_000]
    records = make_records(site, ("https://shop.example",), sent)
    watched: Any = _WatchedStore(column_store)
    # The clock moves from one receipt to the next, over midnights. Events arrive late, or with a future time.
    begin, now, most = 0, datetime.fromtimestamp(0, UTC), 0
    first = max(1, len(records) - 60)
    ends = sorted({*rng.sample(range(first, len(records)), 8), len(records)})
    for end in ends:
        await store_records(column_store, f"updates/{seed}", records[begin:end])
        begin = end
        received = datetime.fromtimestamp(sent[end - 1].received_ms / 1000, UTC)
        for minutes in rng.choice([(0,), (0, 1), (0, 6)]):
            now = max(now, received + timedelta(minutes=minutes))
            rows = await _check(watched, column_store, site, zone, now)
            most = max(most, len(rows))
    assert watched.updates and most > 1


def _view(at: datetime, second: int, address: str) -> Sent:
    occurred = at + timedelta(seconds=second)
    identity = f"00000000-0000-4000-8000-{address.rpartition('.')[2]:0>6}{second:06}"
    event = {"id": identity, "type": "pageview", "path": f"/{second}", "occurred_at": occurred.isoformat()}
    return Sent(int(at.timestamp() * 1000), address, "Firefox", None, event)


async def _store_two_parts(store: ChdbColumnStore, site: int, watched: Any) -> None:
    """Store two visits, compute the rollup, and store a view of the second visit and a third visit."""
    views = [
        _view(_NOW, second, f"203.0.113.{number}") for number, second in ((1, 0), (2, 1), (2, 2), (3, 3))
    ]
    records = make_records(site, (), views)
    await store_records(store, f"updates/{site}", records[:2])
    await refresh_rollups(watched, site, "UTC", [_NOW.date()], _NOW + timedelta(minutes=1))
    await store_records(store, f"updates/{site}", records[2:])


async def test_rollup_run_with_missing_rows_is_computed_completely(column_store: ChdbColumnStore) -> None:
    site, watched = 25_100, _WatchedStore(column_store)
    await _store_two_parts(column_store, site, watched)
    await column_store.command(
        "DELETE FROM pharos.open_visit_days WHERE site_id = {site:UInt64}", {"site": site}
    )
    rows = await _check(watched, column_store, site, "UTC", _NOW + timedelta(minutes=1))
    assert watched.updates == 1 and len(rows) == 3


async def test_rows_without_numbers_of_events_are_computed_again(column_store: ChdbColumnStore) -> None:
    site, watched = 25_101, _WatchedStore(column_store)
    await _store_two_parts(column_store, site, watched)
    # The rows are as a version without these columns has stored them.
    await column_store.command(
        "ALTER TABLE pharos.open_visit_days UPDATE events = 0, day_events = 0, source = 'wrong' "
        "WHERE site_id = {site:UInt64} SETTINGS mutations_sync = 1",
        {"site": site},
    )
    rows = await _check(watched, column_store, site, "UTC", _NOW + timedelta(minutes=1))
    assert watched.updates == 1 and len(rows) == 3


async def test_visits_without_new_events_are_copied(column_store: ChdbColumnStore) -> None:
    site, watched = 25_102, _WatchedStore(column_store)
    await _store_two_parts(column_store, site, watched)
    await column_store.command(
        "ALTER TABLE pharos.open_visit_days UPDATE source = 'copied' "
        "WHERE site_id = {site:UInt64} SETTINGS mutations_sync = 1",
        {"site": site},
    )
    now = _NOW + timedelta(minutes=1)
    runs = await refresh_rollups(watched, site, "UTC", [_NOW.date()], now)  # type: ignore[arg-type]
    sources = [row["source"] for row in await _rows(column_store, site, runs[_NOW.date()])]
    assert sorted(sources) == ["Direct / None", "Direct / None", "copied"]


class _FailingStore(_WatchedStore):
    """Fails when it stores marks, so a rollup run has rows but no mark."""

    async def command(self, sql: str, parameters: Any = None) -> None:
        if "INSERT INTO pharos.told_days" in sql:
            raise StorageUnavailable("away")
        await super().command(sql, parameters)


async def test_a_run_that_was_cut_short_is_not_copied(column_store: ChdbColumnStore) -> None:
    site, watched = 25_103, _WatchedStore(column_store)
    await _store_two_parts(column_store, site, watched)
    now = _NOW + timedelta(minutes=1)
    failing: Any = _FailingStore(column_store)
    with pytest.raises(StorageUnavailable):
        await refresh_rollups(failing, site, "UTC", [_NOW.date()], now)
    before = await check_rollups(column_store, site, "UTC", [_NOW.date()], now)
    rows = await _check(watched, column_store, site, "UTC", now)
    assert len(before.stale) == 1 and len(rows) == 3
