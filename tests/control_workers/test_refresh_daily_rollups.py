"""The background worker leaves nothing to compute for a report on finished days."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from analytics_queries.visits.report_request import VisitFilters
from control_domain.database.engine import Sessions
from control_domain.sites.reports import ReportQuery, make_report
from control_domain.tables.sites import Goal, Site
from control_workers.refresh_daily_rollups import refresh_finished_days
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from tests.support.accounts import make_acme
from tests.support.stored_visits import store_purchase

_NOW = datetime(2026, 11, 26, 20, 30, tzinfo=UTC)


class _OnlyToday:
    """The store, for a report that computes only the rollup of today."""

    def __init__(self, store: ChdbColumnStore) -> None:
        self.query = store.query
        self._command = store.command

    async def command(self, sql: str, parameters: Any = None) -> None:
        assert "INSERT INTO pharos.open_visit_days" in sql or parameters.get("is_open"), sql
        await self._command(sql, parameters)


async def test_finished_days_and_their_figures_are_stored(
    sessions: Sessions, column_store: ChdbColumnStore
) -> None:
    async with sessions() as session, session.begin():
        acme = await make_acme(session, _NOW)
    # A number that no other test uses, because all share the column store.
    site = Site(
        id=630_001,
        public_id="sit_630001",
        project_id=acme.project.id,
        name="Shop",
        timezone="Europe/Oslo",
        domains="[]",
        created_at=_NOW,
    )
    goals = [
        Goal(site_id=site.id, name="Purchase", event="purchase", created_at=_NOW),
        Goal(site_id=site.id, name="Thanks", path="/thanks", created_at=_NOW),
    ]
    async with sessions() as session, session.begin():
        session.add(site)
        await session.flush()
        session.add_all(goals)
    for days in (1, 3, 9):
        await store_purchase(column_store, site.id, _NOW - timedelta(days=days))
    await refresh_finished_days(sessions, column_store, _NOW)
    store: Any = _OnlyToday(column_store)
    report = await make_report(store, site, goals, ReportQuery(7, VisitFilters()), _NOW)
    assert [goal["conversions"] for goal in report["goals"]] == [2, 2]
    assert report["metrics"]["visits"]["previous"] == 1


class _Refusing:
    """The store, which cannot run statements for some sites."""

    def __init__(self, store: ChdbColumnStore, *sites: int) -> None:
        self.query = store.query
        self._command = store.command
        self._sites = sites

    async def command(self, sql: str, parameters: Any = None) -> None:
        if parameters["site_id"] in self._sites:
            raise StorageUnavailable("The value is too long.")
        await self._command(sql, parameters)


async def test_a_site_that_cannot_be_refreshed_stops_no_other(
    sessions: Sessions, column_store: ChdbColumnStore
) -> None:
    first, second = 630_010, 630_011
    async with sessions() as session, session.begin():
        acme = await make_acme(session, _NOW)
        for number in (first, second):
            session.add(
                Site(
                    id=number,
                    public_id=f"sit_{number}",
                    project_id=acme.project.id,
                    name=f"Shop {number}",
                    timezone="UTC",
                    domains="[]",
                    created_at=_NOW,
                )
            )
    for number in (first, second):
        await store_purchase(column_store, number, _NOW - timedelta(days=3))
    one: Any = _Refusing(column_store, first)
    await refresh_finished_days(sessions, one, _NOW)
    figures = "SELECT DISTINCT site_id FROM pharos.visit_day_figures WHERE site_id IN {sites:Array(UInt64)}"
    stored = await column_store.query(figures, {"sites": [first, second]})
    assert stored.rows == [[second]]
    await store_purchase(column_store, second, _NOW - timedelta(days=2))
    every: Any = _Refusing(column_store, first, second)
    with pytest.raises(StorageUnavailable):
        await refresh_finished_days(sessions, every, _NOW)
