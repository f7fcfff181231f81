"""Analyses count like the report: on random traffic they equal its second, slow implementation."""

import json
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from analytics_queries.telemetry.limited_sql import share_time
from analytics_queries.visit_analysis.recent_rollups import RecentRollups
from analytics_queries.visit_analysis.visit_lists import LIST_NAMES
from analytics_queries.visits import stored_days
from control_domain.sites.analysis import VisitAnalysis
from control_domain.sites.analysis_query import (
    PeriodChoice,
    read_comparison,
    read_conditions,
    read_interval,
    read_period,
)
from control_domain.tables.sites import Goal as GoalRow
from control_domain.tables.sites import Site as SiteRow
from pipeline_contracts.errors import InvalidInput
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from tests.analytics_queries.oracle.report import report as oracle_report
from tests.analytics_queries.oracle.sent import Filters, Goal, Sent, Site
from tests.analytics_queries.oracle.traffic import ZONES, moments, random_traffic
from tests.support.site_traffic import make_records, store_records
from tests.support.stored_visits import sent_event, store_visits
from tests.support.tables_without_ttl import tables_without_ttl

_GOALS = (
    Goal(1, "Purchase", "purchase", None),
    Goal(2, "Signup", "signup", None),
    Goal(5, "Thanks", None, "/thanks"),
)
_TABLES = ("pageviews", "visit_days", "visit_day_lists", "visit_day_figures", "visit_day_events", "told_days")
_NOW = datetime(2026, 11, 26, 20, 30, tzinfo=UTC)


def _analysis(
    store: ChdbColumnStore, site_id: int, zone: str, now: datetime, filters: str | None, **choice: Any
) -> VisitAnalysis:
    site = SiteRow(id=site_id, name="Shop", timezone=zone)
    goals = [GoalRow(id=each.id, name=each.name, event=each.event, path=each.path) for each in _GOALS]
    return VisitAnalysis(
        store, RecentRollups(), site, goals, read_conditions(filters), PeriodChoice(**choice), now
    )


def _as_report(entry: dict[str, Any], unit: str) -> dict[str, Any]:
    return {"name": entry["name"], "visitors": entry["visitors"], unit: entry["number"]}


@pytest.fixture(scope="module")
async def store_without_ttl(column_store: ChdbColumnStore) -> AsyncIterator[ChdbColumnStore]:
    """The column store without TTLs: the traffic lies years back."""
    async with tables_without_ttl(column_store, _TABLES):
        yield column_store


@pytest.mark.parametrize("seed", [1, 40])
async def test_agrees_with_the_oracle(seed: int, store_without_ttl: ChdbColumnStore) -> None:
    rng = random.Random(seed)
    zone = ZONES[seed % len(ZONES)]
    now = moments(rng, zone)
    sent = random_traffic(rng, zone, now)
    site_id = 30_000 + seed
    records = make_records(site_id, ("https://shop.example",), sent)
    await store_records(store_without_ttl, f"analysis/{seed}", records, [])
    site = Site(site_id, "Shop", zone, frozenset({"shop.example"}), _GOALS)
    cases: list[tuple[int, dict[str, str], list[Any]]] = [
        (30, {}, []),
        (1, {"device": "Mobile"}, [["is", "device", ["Mobile"]]]),
        (7, {"path": "/docs"}, [["is", "page", ["/docs"]]]),
    ]
    for days, values, filters in cases:
        expected = oracle_report(sent, site, days, Filters(**values), round(now.timestamp() * 1000))
        analysis = _analysis(store_without_ttl, site_id, zone, now, json.dumps(filters), days=days)
        await _check(analysis, expected)
        # Again, from the stored rollups of the past days.
        await _check(analysis, expected)


async def _check(analysis: VisitAnalysis, expected: dict[str, Any]) -> None:
    figures = await analysis.figures("previous", None, None)
    for name, metric in expected["metrics"].items():
        assert figures["metrics"][name] == metric, name  # type: ignore[literal-required]
    series = [{name: each[name] for name in expected["series"][0]} for each in figures["series"]]  # type: ignore[literal-required]
    assert series == expected["series"]
    assert (
        sum(each["visits"] for each in figures["comparison_series"])
        == expected["metrics"]["visits"]["previous"]
    )
    lists = (await analysis.lists(LIST_NAMES, "", 5))["lists"]
    for name, found in lists.items():
        assert [_as_report(dict(each), found["unit"]) for each in found["entries"]] == expected[name], name
        assert found["total"] >= len(expected[name])
    goals = (await analysis.conversions())["goals"]
    assert [{name: goal[name] for name in expected["goals"][0]} for goal in goals] == expected["goals"]  # type: ignore[literal-required]
    speed = await analysis.page_speed(by_page=True)
    assert speed["metrics"] == expected["page_speed"]
    for name, metric in expected["page_speed"].items():
        # Includes visits of which only measurements arrived.
        assert sum(page[name]["samples"] for page in speed["pages"]) >= metric["samples"]  # type: ignore[literal-required]


async def test_conditions_choose_visits(column_store: ChdbColumnStore) -> None:
    at, site_id = _NOW - timedelta(hours=2), 31_000

    def visit(number: int, *paths: str, **members: Any) -> list[Sent]:
        return [
            sent_event(at + timedelta(seconds=second), f"192.0.2.{number}", path, **members)
            for second, path in enumerate(paths)
        ]

    await store_visits(
        column_store,
        site_id,
        *visit(1, "/", "/docs/api", device="Mobile", referrer_host="www.google.no"),
        *visit(2, "/docs/start", device="Desktop", utm_source="Newsletter"),
        *visit(3, "/prices", device="Tablet"),
        sent_event(at, "192.0.2.3", "/prices", type="event", properties={"name": "signup"}, device="Tablet"),
    )
    cases: list[tuple[list[Any], int]] = [
        ([], 3),
        ([["is", "device", ["Mobile", "Tablet"]]], 2),
        ([["is_not", "device", ["Mobile"]]], 2),
        ([["contains", "page", ["/DOCS"]]], 2),
        ([["contains_not", "page", ["/docs"]]], 1),
        ([["is_not", "page", ["/"]]], 2),
        ([["contains", "entry_page", ["/docs"]]], 1),
        ([["is", "exit_page", ["/docs/api"]]], 1),
        ([["contains", "source", ["news", "goog"]]], 2),
        ([["is", "event", ["signup"]]], 1),
        ([["contains", "page", ["/docs"]], ["is", "source", ["Newsletter"]]], 1),
        ([["contains", "page", ["/docs"]], ["is_not", "page", ["/docs/api"]]], 1),
    ]
    for filters, visits in cases:
        analysis = _analysis(column_store, site_id, "UTC", _NOW, json.dumps(filters), days=1)
        found = await analysis.figures("none", None, "hour")
        assert found["metrics"]["visits"] == {"value": visits, "previous": None, "change": None}, filters
        assert sum(each["visits"] for each in found["series"]) == visits
        assert len(found["series"]) == 21 and found["comparison_series"] == []
    found = await _analysis(column_store, site_id, "UTC", _NOW, None, days=1).lists(["pages"], "DOCS", 1)
    assert found["lists"]["pages"]["total"] == 2 and len(found["lists"]["pages"]["entries"]) == 1


_STORED = ("INSERT INTO pharos.visit_day_events", "INSERT INTO pharos.visit_day_figures")


class _Statements:
    """Forwards queries and statements, and records the statements."""

    def __init__(self, store: ChdbColumnStore) -> None:
        self._store = store
        self.query = store.query
        self.sent: list[str] = []

    async def command(self, sql: str, parameters: Any = None) -> None:
        self.sent.append(sql)
        await self._store.command(sql, parameters)


async def test_an_event_after_the_request_counts_nowhere(column_store: ChdbColumnStore) -> None:
    """A request that has waited may find rollups that were computed for a later request, and contain later events."""
    site_id = 30_900
    events = [sent_event(_NOW + timedelta(seconds=second), "192.0.2.1") for second in (-5, 1)]
    await store_visits(column_store, site_id, *events)
    later = _analysis(column_store, site_id, "UTC", _NOW + timedelta(seconds=3), None, days=1)
    waited = replace(later, now=_NOW)
    views = []
    for analysis in (later, waited):
        figures = await analysis.figures("none", None, "hour")
        hours = sum(each["pageviews"] for each in figures["series"])
        views.append((figures["metrics"]["pageviews"]["value"], hours))
    assert views == [(2, 2), (1, 1)]


async def test_rollups_of_past_days_are_stored_once_and_within_limits(
    column_store: ChdbColumnStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    site_id = 31_500
    await store_visits(
        column_store,
        site_id,
        *(sent_event(_NOW - timedelta(days=days, hours=2), "192.0.2.1") for days in range(4)),
    )
    store: Any = _Statements(column_store)

    async def read() -> list[str]:
        store.sent.clear()
        with share_time(500.0):
            goals = (await _analysis(store, site_id, "UTC", _NOW, None, days=4).conversions())["goals"]
        assert [goal["conversions"] for goal in goals] == [0, 0, 0]
        return list(store.sent)

    monkeypatch.setattr(stored_days, "_MOST_DAYS", 2)
    first = await read()
    # Three past days, two at a time: events and figures.
    assert all("max_execution_time = 4" in sql for sql in first)
    stored = [sql for sql in first if any(insert in sql for insert in _STORED)]
    assert len(stored) == 4 and all("max_memory_usage" in sql for sql in stored)
    # Today's rollup cannot be stored, so nothing is computed again.
    assert await read() == []


_PERIOD = read_period(PeriodChoice(days=7), "Europe/Oslo", _NOW)


@pytest.mark.parametrize(
    ("field", "read"),
    [
        ("filters", lambda: read_conditions("nonsense")),
        ("filters", lambda: read_conditions('[["is", "moon", ["a"]]]')),
        ("filters", lambda: read_conditions('[["is", "source", []]]')),
        ("filters", lambda: read_conditions('[["is", "source", ["a"]], ["is_not", "source", ["b"]]]')),
        ("to", lambda: read_period(PeriodChoice(first="2026-11-01"), "UTC", _NOW)),
        ("to", lambda: read_period(PeriodChoice(first="2026-11-02", last="2026-11-01"), "UTC", _NOW)),
        ("from", lambda: read_period(PeriodChoice(first="2026-11-27", last="2026-11-28"), "UTC", _NOW)),
        ("from", lambda: read_period(PeriodChoice(first="2024-11-27", last="2026-11-26"), "UTC", _NOW)),
        ("from", lambda: read_period(PeriodChoice(first="11/27", last="2026-11-26"), "UTC", _NOW)),
        ("days", lambda: read_period(PeriodChoice(7, "2026-11-01", "2026-11-02"), "UTC", _NOW)),
        ("compare_from", lambda: read_comparison(_PERIOD, "custom", None, "UTC")),
        ("compare_from", lambda: read_comparison(_PERIOD, "year", "2026-11-01", "UTC")),
        ("compare_from", lambda: read_comparison(_PERIOD, "custom", "2026-11-25", "UTC")),
        ("interval", lambda: read_interval(read_period(PeriodChoice(days=8), "UTC", _NOW), "hour")),
    ],
)
def test_wrong_queries_name_the_parameter(field: str, read: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        read()
    assert [error.field for error in refused.value.errors] == [field]


def test_compared_periods_have_as_many_days_and_as_much_of_the_last_one() -> None:
    previous = read_comparison(_PERIOD, "previous", None, "Europe/Oslo")
    year = read_comparison(_PERIOD, "year", None, "Europe/Oslo")
    assert previous is not None and year is not None
    assert (previous.first, previous.last) == (date(2026, 11, 13), date(2026, 11, 19))
    assert previous.end == _NOW - timedelta(days=7)
    assert (year.first, len(year.days)) == (date(2025, 11, 20), 7)
    closed = read_period(PeriodChoice(first="2026-11-01", last="2026-11-02"), "UTC", _NOW)
    assert closed.end == datetime(2026, 11, 3, tzinfo=UTC)
    assert read_interval(closed, None) == "day"
