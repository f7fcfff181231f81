"""A child process that uses a column store with page views of 90 days. It adds rows, or measures reports and
look-ups.

Site 1 has a fixed number of page views. The other sites get more page views with each step.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from analytics_queries.stored_receipts import stored_receipts
from analytics_queries.visits.calendar_days import day_of, days_between
from analytics_queries.visits.refresh_rollups import refresh_rollups
from analytics_queries.visits.report_request import Goals, ReportRequest, VisitFilters
from analytics_queries.visits.site_report import site_report
from analytics_queries.visits.stored_visits import stored_visits
from loadtests.bench import site_report as bench_report
from loadtests.bench.child_process import send_result
from storage_backends.column_store.apply_schema import apply_schema
from storage_backends.column_store.chdb_embedded import ChdbColumnStore, open_chdb
from storage_backends.sql_files import read_sql, read_statements

DAYS = 90
RECEIPT_DAYS = 28
STOP_MERGES = "SYSTEM STOP MERGES"
_SITE = 1
_OTHER_SITES = 2
_ZONE = "Europe/Oslo"
_REPORT_DAYS = 30
# `control_workers.refresh_daily_rollups` checks the same number of days.
_CHECKED_DAYS = 730
_LOOK_UP_MS = 2 * 3_600_000
_MERGE_SECONDS = 120.0
_FILL = read_sql(bench_report.__file__)
_SQL = read_statements(__file__)


async def _add(store: ChdbColumnStore, site: int, sites: int, views: int, first: int) -> None:
    """Add page views of `sites` sites, starting with the site `site`. `first`: the first unused number for a page
    view."""
    await apply_schema(store)
    a_day = max(1, views // DAYS)
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    for number in range(DAYS):
        day = midnight - timedelta(days=DAYS - 1 - number)
        parameters = {"site": site, "sites": sites, "first": first + number * 2 * a_day}
        await store.command(_FILL, {**parameters, "views": a_day, "day": day})
        send_result({"views": a_day})
    await store.command(_SQL["add_ids"], {"first": first})
    await _wait_for_merges(store)


async def _wait_for_merges(store: ChdbColumnStore) -> None:
    deadline = time.monotonic() + _MERGE_SECONDS
    while time.monotonic() < deadline:
        ((merges,),) = (await store.query("SELECT count() FROM system.merges")).rows
        if not merges:
            return
        await asyncio.sleep(1)


async def _fill_site(store: ChdbColumnStore, views: int) -> None:
    """Add the site with the fixed number of page views, and its daily rollups."""
    await _add(store, _SITE, 1, views, 0)
    now = datetime.now(UTC)
    days = days_between(day_of(now, _ZONE) - timedelta(days=2 * DAYS), day_of(now, _ZONE))
    await refresh_rollups(store, _SITE, _ZONE, days, now)


async def _fill_others(store: ChdbColumnStore, sites: int, views: int, first: int) -> None:
    await _add(store, _OTHER_SITES, sites, views, first)


async def _report(store: ChdbColumnStore, times: int) -> None:
    """Make reports one after the other, without new events. Report the CPU milliseconds of each."""
    await store.command(STOP_MERGES)
    now = datetime.now(UTC)
    request = ReportRequest(_SITE, _ZONE, VisitFilters(), Goals(("purchase",), ("/products/7",)), now)
    for _ in range(times):
        before, begun = time.process_time(), time.perf_counter()
        report = await site_report(store, request, _REPORT_DAYS)
        assert report.current.pageviews
        _send_used(before, begun)


async def _look_up_visits(store: ChdbColumnStore, times: int) -> None:
    """Read the visits that an event may still join, as a consumer does when it gets a new partition."""
    await store.command(STOP_MERGES)
    since_ms = time.time_ns() // 1_000_000 - _LOOK_UP_MS
    for _ in range(times):
        before, begun = time.process_time(), time.perf_counter()
        await stored_visits(store, "bench", 2**62, since_ms)
        _send_used(before, begun)


async def _check_rollups(store: ChdbColumnStore, times: int) -> None:
    """Check the daily rollups of the site, as the control plane does for each site. None of them is stale."""
    await store.command(STOP_MERGES)
    now = datetime.now(UTC)
    yesterday = day_of(now, _ZONE) - timedelta(days=1)
    days = days_between(yesterday - timedelta(days=_CHECKED_DAYS), yesterday)
    for _ in range(times):
        before, begun = time.process_time(), time.perf_counter()
        await refresh_rollups(store, _SITE, _ZONE, days, now)
        _send_used(before, begun)


async def _fill_receipts(store: ChdbColumnStore, receipts: int, first: int) -> None:
    """Add receipts of 28 days."""
    await apply_schema(store)
    a_day = receipts // RECEIPT_DAYS
    for days in range(RECEIPT_DAYS):
        parameters = {"days": days, "rows": a_day, "first": first + days * a_day}
        await store.command(_SQL["add_receipts"], parameters)
        send_result({"receipts": a_day})
    await _wait_for_merges(store)


async def _look_up_receipts(store: ChdbColumnStore, times: int) -> None:
    """Look up the batches of a chunk of 50,000 events, as a consumer does for each chunk."""
    await store.command(STOP_MERGES)
    for number in range(times):
        names = [name for (name,) in (await store.query(_SQL["some_names"], {"salt": number})).rows]
        before, begun = time.process_time(), time.perf_counter()
        assert not await stored_receipts(store, names)
        _send_used(before, begun)


def _send_used(before: float, begun: float) -> None:
    used, took = time.process_time() - before, time.perf_counter() - begun
    send_result({"cpu_ms": 1e3 * used, "ms": 1e3 * took})


_TASKS: Mapping[str, Callable[..., Coroutine[Any, Any, None]]] = {
    "fill_site": _fill_site,
    "fill_others": _fill_others,
    "report": _report,
    "look_up_visits": _look_up_visits,
    "check_rollups": _check_rollups,
    "fill_receipts": _fill_receipts,
    "look_up_receipts": _look_up_receipts,
}


async def _run(folder: Path, task: str, arguments: dict[str, Any]) -> None:
    store = await open_chdb(folder)
    await _TASKS[task](store, **arguments)
    await store.close()
    send_result({})


if __name__ == "__main__":
    given: dict[str, Any] = json.loads(sys.argv[1])
    asyncio.run(_run(Path(given.pop("folder")), given.pop("task"), given))
