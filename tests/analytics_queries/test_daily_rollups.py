"""Daily rollups stay correct: the next report includes later events, in any order of arrival."""

import asyncio
import random
import time
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from analytics_queries.visits import refresh_rollups as refresh_module
from analytics_queries.visits.calendar_days import days_between
from analytics_queries.visits.daily_rollups import DailyRollups, StaleRollup, check_rollups
from analytics_queries.visits.refresh_rollups import refresh_rollups, refresh_stale_rollups, remove_superseded
from analytics_queries.visits.report_request import Goals, ReportRequest, VisitFilters
from analytics_queries.visits.site_report import site_report
from analytics_queries.visits.stored_days import stored_days
from control_domain.sites.describe_report import ReportedSite, describe_report
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from tests.analytics_queries.oracle.report import report as oracle_report
from tests.analytics_queries.oracle.sent import Filters, Sent, Site
from tests.analytics_queries.oracle.traffic import random_traffic
from tests.support.site_traffic import make_records, store_records

_ZONES = ("Europe/Oslo", "America/New_York", "Pacific/Auckland", "Asia/Kathmandu", "UTC")
_NOW = datetime(2026, 11, 20, 14, 30, tzinfo=UTC)


async def _report(store: ChdbColumnStore, site: Site, days: int, now: datetime) -> dict[str, Any]:
    request = ReportRequest(site.id, site.timezone, VisitFilters(), Goals(), now)
    report = await site_report(store, request, days)
    return describe_report(ReportedSite(site.id, site.name, site.timezone, ()), request.filters, report)


def _site(site_id: int, zone: str) -> Site:
    return Site(site_id, "Shop", zone, frozenset({"shop.example"}), ())


def _view(at: datetime, minutes_ago: int = 0, address: str = "203.0.113.7") -> Sent:
    occurred = at - timedelta(minutes=minutes_ago)
    number = f"{int(at.timestamp()):012x}"
    identity = f"00000000-0000-4000-8000-{number}"
    event = {"id": identity, "type": "pageview", "path": "/", "occurred_at": occurred.isoformat()}
    return Sent(int(at.timestamp() * 1000), address, "Firefox", None, event)


# Each seed takes 5 s of CPU: `make test` has one zone behind UTC and one ahead of it, both with a clock change.
_SEEDS = [seed if seed in (0, 1) else pytest.param(seed, marks=pytest.mark.full) for seed in range(15)]


@pytest.mark.parametrize("seed", _SEEDS)
async def test_events_after_a_report_are_in_the_next(seed: int, column_store: ChdbColumnStore) -> None:
    rng = random.Random(seed)
    site = _site(20_000 + seed, _ZONES[seed % len(_ZONES)])
    # Recent enough that no table's TTL removes it.
    sent = [
        event for event in random_traffic(rng, site.timezone, _NOW) if event.received_ms > 1_720_000_000_000
    ]
    records = make_records(site.id, ("https://shop.example",), sent)
    cuts = sorted(rng.sample(range(1, len(records)), 3))
    # The traffic of the last days arrives in parts, so that rollups between the parts become stale.
    cuts += [cut for cut in range(len(records) - 40, len(records), 10) if cut > cuts[-1]]
    begin = 0
    for end in [*cuts, len(records)]:
        await store_records(column_store, f"rollups/{seed}", records[begin:end])
        begin = end
        for days in (7, 90):
            expected = oracle_report(sent[:end], site, days, Filters(), int(_NOW.timestamp() * 1000))
            assert await _report(column_store, site, days, _NOW) == expected


async def test_a_finished_day_is_computed_once_and_again_after_a_late_event(
    column_store: ChdbColumnStore,
) -> None:
    site = _site(21_000, "Europe/Oslo")
    yesterday = date(2026, 11, 19)
    views = [_view(_NOW - timedelta(days=1, minutes=minutes)) for minutes in (50, 40)]
    log = "rollups/late"
    await store_records(column_store, log, make_records(site.id, (), views))
    first = await refresh_rollups(column_store, site.id, site.timezone, [yesterday], _NOW)
    assert await refresh_rollups(column_store, site.id, site.timezone, [yesterday], _NOW) == first
    late = make_records(site.id, (), [*views, _view(_NOW, minutes_ago=23 * 60)])[2:]
    await store_records(column_store, log, late)
    state = await check_rollups(column_store, site.id, site.timezone, [yesterday], _NOW)
    assert [rollup.day for rollup in state.stale] == [yesterday]
    again = await refresh_rollups(column_store, site.id, site.timezone, [yesterday], _NOW)
    assert again.keys() == first.keys() and again != first
    assert (await _report(column_store, site, 7, _NOW))["metrics"]["pageviews"]["value"] == 3


async def test_concurrent_refreshes_of_a_day_count_it_once(column_store: ChdbColumnStore) -> None:
    site = _site(21_001, "UTC")
    views = [_view(_NOW - timedelta(days=3, minutes=number)) for number in range(5)]
    await store_records(column_store, "rollups/twice", make_records(site.id, (), views))
    await asyncio.gather(*(_report(column_store, site, 7, _NOW) for _ in range(4)))
    assert (await _report(column_store, site, 7, _NOW))["metrics"]["pageviews"]["value"] == 5


class _StoreUntil:
    """The store, which fails from a given command on."""

    def __init__(self, store: ChdbColumnStore, commands: int) -> None:
        self._store = store
        self._left = commands

    async def command(self, sql: str, parameters: Any = None) -> None:
        if not self._left:
            raise StorageUnavailable("away")
        self._left -= 1
        await self._store.command(sql, parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_an_unfinished_run_does_not_count(column_store: ChdbColumnStore) -> None:
    views = [_view(datetime(2026, 11, day, 12, tzinfo=UTC)) for day in (16, 17)]
    for commands in range(5):
        site = _site(21_010 + commands, "UTC")
        await store_records(column_store, f"rollups/cut/{commands}", make_records(site.id, (), views))
        with pytest.raises(StorageUnavailable):
            await _report(_StoreUntil(column_store, commands), site, 7, _NOW)  # type: ignore[arg-type]
        assert (await _report(column_store, site, 7, _NOW))["metrics"]["pageviews"]["value"] == 2


async def test_rows_of_today_are_not_kept_for_good(column_store: ChdbColumnStore) -> None:
    site = _site(21_020, "UTC")
    days = [_NOW.date() - timedelta(days=1), _NOW.date()]
    views = [_view(_NOW - timedelta(days=1)), _view(_NOW - timedelta(minutes=9))]
    await store_records(column_store, "rollups/today", make_records(site.id, (), views))
    assert list(await refresh_rollups(column_store, site.id, "UTC", days, _NOW)) == days
    stored = "SELECT DISTINCT day FROM pharos.visit_days WHERE site_id = {site:UInt64}"
    assert (await column_store.query(stored, {"site": site.id})).rows == [[days[0]]]


async def test_an_event_ahead_of_the_clock_counts_once_its_time_has_come(
    column_store: ChdbColumnStore,
) -> None:
    site = _site(21_021, "UTC")
    views = [_view(_NOW), _view(_NOW + timedelta(seconds=1), minutes_ago=-4)]
    await store_records(column_store, "rollups/ahead", make_records(site.id, (), views))
    for minutes, counted in ((1, 1), (5, 2)):
        report = await _report(column_store, site, 7, _NOW + timedelta(minutes=minutes))
        assert report["metrics"]["pageviews"]["value"] == counted


async def test_a_late_event_makes_the_next_two_days_stale_too(column_store: ChdbColumnStore) -> None:
    site = _site(21_022, "UTC")
    days = days_between(date(2026, 11, 18), date(2026, 11, 20))
    views = [_view(datetime(2026, 11, day, 12, tzinfo=UTC)) for day in (18, 19, 20)]
    views.append(_view(datetime(2026, 11, 18, 13, tzinfo=UTC)))
    records = make_records(site.id, (), views)
    await store_records(column_store, "rollups/renewed", records[:3])
    await refresh_rollups(column_store, site.id, "UTC", days, _NOW)
    await store_records(column_store, "rollups/renewed", records[3:])
    state = await check_rollups(column_store, site.id, "UTC", days, _NOW)
    assert [rollup.day for rollup in state.stale] == days


async def test_many_stale_days_are_refreshed_in_parts(column_store: ChdbColumnStore) -> None:
    days = days_between(date(2026, 6, 1), date(2026, 11, 10))
    rollups = DailyRollups({}, [StaleRollup(day, 0, 1, is_open=False) for day in days])
    assert list(await refresh_stale_rollups(column_store, 21_023, "UTC", rollups, _NOW)) == list(days)


async def test_another_time_zone_refreshes_all_days(column_store: ChdbColumnStore) -> None:
    views = [_view(datetime(2026, 11, 19, hour, 30, tzinfo=UTC)) for hour in (2, 12, 22)]
    await store_records(column_store, "rollups/zone", make_records(21_002, (), views))
    for zone, by_day in (("UTC", [0, 3, 0]), ("Asia/Tokyo", [0, 2, 1]), ("America/New_York", [1, 2, 0])):
        series = (await _report(column_store, _site(21_002, zone), 7, _NOW))["series"]
        assert [
            entry["pageviews"] for entry in series if "2026-11-18" <= entry["at"] <= "2026-11-20"
        ] == by_day


async def test_superseded_rows_are_removed_after_an_hour(column_store: ChdbColumnStore) -> None:
    site = _site(21_003, "UTC")
    days = days_between(date(2026, 11, 10), date(2026, 11, 12))
    views = [_view(datetime(2026, 11, 11, 12, number, tzinfo=UTC)) for number in range(4)]
    log = "rollups/removed"
    records = make_records(site.id, (), views)
    for part in (records[:2], records[2:]):
        await store_records(column_store, log, part)
        await refresh_rollups(column_store, site.id, site.timezone, days, _NOW)
    runs = "SELECT uniqExact(run) FROM pharos.visit_days WHERE site_id = {site:UInt64}"
    assert (await column_store.query(runs, {"site": site.id})).rows == [[2]]
    await remove_superseded(column_store, datetime.now(UTC))
    assert (await column_store.query(runs, {"site": site.id})).rows == [[2]]
    await remove_superseded(column_store, datetime.now(UTC) + timedelta(hours=2))
    assert (await column_store.query(runs, {"site": site.id})).rows == [[1]]
    assert (await _report(column_store, site, 30, _NOW))["metrics"]["pageviews"]["value"] == 4


async def test_rows_that_a_report_may_still_read_stay(
    column_store: ChdbColumnStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rollup run is old, and was replaced just now."""
    site, now_ns = _site(21_031, "UTC"), time.time_ns()
    days = days_between(date(2026, 11, 10), date(2026, 11, 12))
    records = make_records(site.id, (), [_view(datetime(2026, 11, 11, 12, n, tzinfo=UTC)) for n in range(2)])
    for record, hours in zip(records, (5, 0), strict=True):
        await store_records(column_store, "rollups/replaced", [record])
        monkeypatch.setattr(refresh_module.time, "time_ns", lambda: now_ns - hours * 3600 * 10**9)  # noqa: B023
        await refresh_rollups(column_store, site.id, site.timezone, days, _NOW)
    monkeypatch.undo()
    runs = "SELECT uniqExact(run) FROM pharos.visit_days WHERE site_id = {site:UInt64}"
    for hours, left in ((0, 2), (2, 1)):
        await remove_superseded(column_store, datetime.now(UTC) + timedelta(hours=hours))
        assert (await column_store.query(runs, {"site": site.id})).rows == [[left]]


async def test_only_figures_that_can_be_stored_for_good_are(column_store: ChdbColumnStore) -> None:
    class Server:
        query = column_store.query

        def __init__(self, cluster: str | None) -> None:
            self.cluster = cluster

        async def command(self, sql: str, parameters: Any = None) -> None:
            raise StorageUnavailable("it was stored")

    alone: Any = Server(None)
    replicas: Any = Server("c")
    days = [date(2026, 11, 11)]
    records = make_records(21_032, (), [_view(datetime(2026, 11, 11, 12, tzinfo=UTC))])
    await store_records(column_store, "rollups/settled", records)
    runs = await refresh_rollups(column_store, 21_032, "UTC", days, _NOW)
    with pytest.raises(StorageUnavailable, match="it was stored"):
        await stored_days(alone, 21_032, Goals(), days, runs)
    # A statement may run on a replica that does not have the rollup run yet.
    assert await stored_days(replicas, 21_032, Goals(), days, runs) == {}
    # ClickHouse refuses a value of this length.
    long_goals = Goals(paths=tuple(f"/{number}/{'页' * 500}" for number in range(30)))
    assert await stored_days(alone, 21_032, long_goals, days, runs) == {}
