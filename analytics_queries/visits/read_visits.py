"""What is there to report of a site's visits in a period, and of those in the period before?"""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from datetime import date
from typing import Any, TypeVar

from analytics_queries.visits.calendar_days import Period, whole_days
from analytics_queries.visits.period_figures import Figures, period_figures
from analytics_queries.visits.report_request import ReportRequest
from analytics_queries.visits.report_rows import Conversions, FoundRows
from analytics_queries.visits.stored_days import read_stored_conversions, stored_days
from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_statements

A = TypeVar("A")
B = TypeVar("B")
Runs = Mapping[date, int]
"""Runs of rollups by day."""

_SQL = read_statements(__file__)


async def read_filtered_visits(
    store: ColumnStore,
    request: ReportRequest,
    current: Period,
    previous: Period,
    runs: Runs,
    refreshing: Coroutine[Any, Any, Runs],
) -> tuple[Runs, FoundRows, Figures]:
    """Return all runs, what is there of visits that the filters keep, and their figures in the previous period.

    `runs` has the days that are over; `refreshing` returns all. Raises `StorageUnavailable`.
    """
    found = FoundRows()

    async def read_current() -> Runs:
        all_runs = await refreshing
        lists = _SQL["lists"].replace("{stored_lists}", "").replace("{counted_visits}", "visits")
        parts = [*_count_days(request), lists, _SQL["web_vitals"]]
        sql = _join(["stored", "filtered_visits", "converted"], parts)
        found.add_rows((await store.query(sql, request.parameters(current, all_runs))).rows)
        return all_runs

    all_runs, figures = await _run_both(read_current(), period_figures(store, request, previous, runs))
    return all_runs, found, figures


async def read_all_visits(
    store: ColumnStore,
    request: ReportRequest,
    current: Period,
    previous: Period,
    runs: Runs,
    refreshing: Coroutine[Any, Any, Runs],
) -> tuple[Runs, FoundRows, Figures]:
    """Return the same of all visits: the figures of days that are over are stored."""
    found = FoundRows()
    refreshed = asyncio.ensure_future(refreshing)

    async def read_lists() -> Runs:
        all_runs = await refreshed
        lists = _SQL["lists"].replace("{stored_lists}", _SQL["stored_lists"])
        parts = [lists.replace("{counted_visits}", "open_day"), _SQL["web_vitals"]]
        sql = _join(["stored", "all_visits", "open_day"], parts)
        found.add_rows((await store.query(sql, request.parameters(current, all_runs))).rows)
        return all_runs

    async def read_days() -> Figures:
        stored, figures = await _read_finished_days(store, request, current, previous, runs, found)
        all_runs = await refreshed
        others = {day: run for day, run in all_runs.items() if day in current.days and day not in stored}
        if others:
            sql = _join(["stored", "all_visits", "converted"], _count_days(request))
            found.add_rows((await store.query(sql, request.parameters(current, others))).rows)
        return figures

    all_runs, figures = await _run_both(read_lists(), read_days())
    return all_runs, found, figures


async def _read_finished_days(
    store: ColumnStore,
    request: ReportRequest,
    current: Period,
    previous: Period,
    runs: Runs,
    found: FoundRows,
) -> tuple[Mapping[date, Figures], Figures]:
    """Add the stored days of the current period to `found`; return what is stored, and the figures of the previous
    period."""
    site_id, goals = request.site_id, request.goals
    days = [*whole_days(previous, request.timezone), *whole_days(current, request.timezone)]
    stored = await stored_days(store, site_id, goals, days, runs)
    mine = [day for day in current.days if day in stored]
    for day in mine:
        found.add_figures(day, stored[day])
    if mine and (goals.events or goals.paths):
        rows = await read_stored_conversions(store, site_id, goals, mine, runs)
        for kind, name, people, number, money in rows:
            conversions = Conversions(int(number), int(people), [*map(tuple, money)])
            found.add_goal(kind, name, conversions)
    others = {day: run for day, run in runs.items() if day in previous.days and day not in stored}
    figures = await period_figures(store, request, previous, others)
    return stored, sum((stored[day] for day in previous.days if day in stored), figures)


def _count_days(request: ReportRequest) -> list[str]:
    """Return the parts that count the visits and conversions of days."""
    parts = [_SQL["day_figures"]]
    if request.goals.events or request.goals.paths:
        parts += [_SQL["conversions_by_day"], _SQL["goals"]]
    return parts


def _join(expressions: Sequence[str], parts: Sequence[str]) -> str:
    """Return the query of these parts, with these common table expressions."""
    ctes = ",\n".join(_SQL[name] for name in expressions)
    return f"WITH\n{ctes}\n" + "\nUNION ALL\n".join(parts) + "\nSETTINGS enable_materialized_cte = 1"


async def _run_both(first: Coroutine[Any, Any, A], second: Coroutine[Any, Any, B]) -> tuple[A, B]:
    """Run both, and return only when both have ended, also if one fails: the next report may start then."""
    tasks = asyncio.create_task(first), asyncio.create_task(second)
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
