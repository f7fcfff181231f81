"""Reads the figures and lists of a site's visits in a period, and the figures of the previous period."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from datetime import date
from typing import Any, TypeVar

from analytics_queries.visits.calendar_days import Period, whole_days
from analytics_queries.visits.day_tables import Runs, select_visits
from analytics_queries.visits.period_figures import Figures, period_figures
from analytics_queries.visits.report_request import ReportRequest
from analytics_queries.visits.report_rows import Conversions, FoundRows
from analytics_queries.visits.stored_days import read_stored_conversions, stored_days
from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_statements

A = TypeVar("A")
B = TypeVar("B")
Refreshing = Coroutine[Any, Any, Mapping[date, int]]

_SQL = read_statements(__file__)
# The columns are named here, because this saves the engine some planning.
_LIST_COLUMNS = (
    "visitor, is_single, is_start, source, country, campaign, device, browser, os, entry_page, exit_page, pages, "
    "page_views, actions"
)
_DAY_COLUMNS = (
    "day, visitor, is_single, is_present, is_start, is_bounce, duration_ms, views, entry_page, pages, page_views, "
    "actions, actions.name AS action_names"
)


async def read_filtered_visits(
    store: ColumnStore,
    request: ReportRequest,
    current: Period,
    previous: Period,
    runs: Runs,
    refreshing: Refreshing,
) -> tuple[Runs, FoundRows, Figures]:
    """Return three values: all runs, the rows for the visits that match the filters, and the figures of such visits in
    the previous period.

    `runs`: the runs of past days. `refreshing`: returns the runs of all days. Raises `StorageUnavailable`.
    """
    found = FoundRows()

    async def read_current() -> Runs:
        all_runs = Runs(await refreshing, runs.open_days)
        chosen = all_runs.of(current.days)
        expressions = [_name_visits("stored", chosen), _SQL["filtered_visits"]]
        parts = [_SQL["day_figures"], _SQL["lists"].replace("{stored_lists}", ""), _SQL["web_vitals"]]
        if goals := _goal_parts(request, "converted"):
            expressions, parts = [*expressions, _SQL["converted"]], [*parts, *goals]
        await _read(store, request, current, chosen, expressions, parts, found)
        return all_runs

    all_runs, figures = await _run_both(read_current(), period_figures(store, request, previous, runs))
    return all_runs, found, figures


async def read_all_visits(
    store: ColumnStore,
    request: ReportRequest,
    current: Period,
    previous: Period,
    runs: Runs,
    refreshing: Refreshing,
) -> tuple[Runs, FoundRows, Figures]:
    """Return the same as `read_filtered_visits`, for all visits. The figures and lists of past days are read from
    stored results.

    Runs several short queries, two at a time: the engine plans a query on one core, and most queries need not wait for
    `refreshing`.
    """
    found = FoundRows()
    refreshed = asyncio.ensure_future(refreshing)

    async def read_lists() -> Runs:
        all_runs = Runs(await refreshed, runs.open_days)
        chosen = all_runs.of(current.days)
        visits = _name_visits("visits", chosen.of(runs.open_days), _LIST_COLUMNS)
        lists = _SQL["lists"].replace("{stored_lists}", _SQL["stored_lists"])
        await _read(store, request, current, chosen, [visits], [lists], found)
        return all_runs

    async def read_days() -> Figures:
        stored, figures = await _read_finished_days(store, request, current, previous, runs, found)
        chosen = Runs(await refreshed, runs.open_days).of(current.days)
        others = chosen.of(day for day in chosen.by_day if day not in stored)
        if others.by_day:
            visits = _name_visits("visits", others, _DAY_COLUMNS)
            parts = [_SQL["day_figures"], *_goal_parts(request, "visits")]
            await _read(store, request, current, others, [visits], parts, found)
        visits = _name_visits("visits", chosen, "vitals")
        await _read(store, request, current, chosen, [visits], [_SQL["web_vitals"]], found)
        return figures

    try:
        all_runs, figures = await _run_both(read_lists(), read_days())
    finally:
        # This is needed if the function was cancelled before either task has waited for the refresh.
        refreshed.cancel()
        await asyncio.gather(refreshed, return_exceptions=True)
    return all_runs, found, figures


async def _read_finished_days(
    store: ColumnStore,
    request: ReportRequest,
    current: Period,
    previous: Period,
    runs: Runs,
    found: FoundRows,
) -> tuple[Mapping[date, Figures], Figures]:
    """Add the stored days of the current period to `found`. Return the stored days, and the figures of the previous
    period."""
    site_id, goals = request.site_id, request.goals
    days = [*whole_days(previous, request.timezone), *whole_days(current, request.timezone)]
    stored = await stored_days(store, site_id, goals, days, runs.by_day)
    mine = [day for day in current.days if day in stored]
    found.by_day.update((day, stored[day]) for day in mine)
    if mine:
        rows = await read_stored_conversions(store, site_id, goals, mine, runs.by_day)
        for kind, name, people, number, money in rows:
            found.add_goal(kind, name, Conversions(int(number), int(people), [*map(tuple, money)]))
    others = runs.of(day for day in previous.days if day not in stored)
    figures = await period_figures(store, request, previous, others)
    return stored, sum((stored[day] for day in previous.days if day in stored), figures)


async def _read(
    store: ColumnStore,
    request: ReportRequest,
    period: Period,
    runs: Runs,
    expressions: Sequence[str],
    parts: Sequence[str],
    found: FoundRows,
) -> None:
    """Run the query that consists of these common table expressions and these parts. Add its rows to `found`."""
    sql = "WITH\n" + ",\n".join(expressions) + "\n" + "\nUNION ALL\n".join(parts)
    sql += "\nSETTINGS enable_materialized_cte = 1"
    found.add_rows((await store.query(sql, request.parameters(period, runs.by_day))).rows)


def _name_visits(name: str, runs: Runs, *columns: str) -> str:
    return f"    {name} AS\n    (\n        {select_visits(runs, *columns)}\n    )"


def _goal_parts(request: ReportRequest, converted: str) -> list[str]:
    """Return the parts of the query that count conversions. `converted`: the part with all visits that have a
    conversion."""
    goals = request.goals
    names = [
        name for name, any_goal in (("event_goals", goals.events), ("path_goals", goals.paths)) if any_goal
    ]
    return [_SQL[name].replace("{converted}", converted) for name in names]


async def _run_both(first: Coroutine[Any, Any, A], second: Coroutine[Any, Any, B]) -> tuple[A, B]:
    """Run both coroutines. Return only when both have ended, even if one fails, because the caller may then start the
    next report."""
    tasks = asyncio.create_task(first), asyncio.create_task(second)
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
