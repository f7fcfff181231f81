"""The report on a site's visits: figures by day, top lists, goals, Web Vitals."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, TypeVar

from analytics_queries.visits.calendar_days import Period, current_period, previous_period
from analytics_queries.visits.daily_rollups import check_rollups
from analytics_queries.visits.hours_of_day import hours_of_day
from analytics_queries.visits.period_figures import Figures, period_figures
from analytics_queries.visits.refresh_rollups import refresh_stale_rollups
from analytics_queries.visits.report_request import ReportRequest, VisitFilters
from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_statements

A = TypeVar("A")
B = TypeVar("B")

_SQL = read_statements(__file__)


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a list: its visitors, and how many page views, visits or events."""

    name: str
    visitors: int
    number: int


@dataclass(frozen=True, slots=True)
class Conversions:
    """How often a goal was reached, by how many visitors, and the revenue."""

    number: int = 0
    visitors: int = 0
    revenue: Sequence[tuple[str, int]] = ()
    """(currency, amount in millionths), sorted by currency."""


@dataclass(frozen=True, slots=True)
class Speed:
    """The 75th percentile of a Web Vital: the smallest value that three quarters of the samples do not exceed."""

    p75: float
    samples: int


@dataclass(frozen=True, slots=True)
class SiteReport:
    """All figures of a report, not rounded. Lists hold up to five entries, the most visitors first."""

    period: Period
    current: Figures
    previous: Figures
    by_day: Mapping[date, Figures]
    by_hour: Mapping[int, tuple[int, int, int]]
    """(page views, visitors, visits) by hours since the start of the day; empty for reports of several days."""
    lists: Mapping[str, Sequence[Entry]]
    event_goals: Mapping[str, Conversions]
    path_goals: Mapping[str, Conversions]
    speed: Mapping[str, Speed]


@dataclass(slots=True)
class _Found:
    by_day: dict[date, Figures] = field(default_factory=dict)
    lists: defaultdict[str, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    goals: dict[tuple[str, str], Conversions] = field(default_factory=dict)
    speed: dict[str, Speed] = field(default_factory=dict)

    def add(self, name: str, figures: Figures) -> None:
        """Add figures to those of the day `name`."""
        day = date.fromisoformat(name)
        self.by_day[day] = self.by_day.get(day, Figures()) + figures


async def site_report(store: ColumnStore, request: ReportRequest, days: int) -> SiteReport:
    """Return the report on `days` calendar days up to now, for which stale rollups are refreshed. Raises
    `StorageUnavailable`."""
    current = current_period(days, request.timezone, request.now)
    previous = previous_period(current, request.timezone)
    all_days = [*previous.days, *current.days]
    rollups = await check_rollups(store, request.site_id, request.timezone, all_days, request.now)
    refreshing = refresh_stale_rollups(store, request.site_id, request.timezone, rollups, request.now)
    if any(rollup.day < current.first for rollup in rollups.stale):
        runs = await refreshing
        # Concurrently: planning a query keeps one core busy.
        found, previous_figures = await _run_both(
            _read(store, request, current, runs), period_figures(store, request, previous, runs)
        )
    else:
        # Usually only today is stale: the figures of the previous period need not wait for it.
        (runs, found), previous_figures = await _run_both(
            _refresh_and_read(store, request, current, refreshing),
            period_figures(store, request, previous, rollups.runs),
        )
    by_hour = await hours_of_day(store, request, current, runs) if days == 1 else {}
    return SiteReport(
        period=current,
        current=sum(found.by_day.values(), Figures()),
        previous=previous_figures,
        by_day=found.by_day,
        by_hour=by_hour,
        lists={name: sorted(entries, key=_rank) for name, entries in found.lists.items()},
        event_goals={
            name: conversions for (kind, name), conversions in found.goals.items() if kind == "goal_event"
        },
        path_goals={
            name: conversions for (kind, name), conversions in found.goals.items() if kind == "goal_path"
        },
        speed=found.speed,
    )


async def _run_both(first: Coroutine[Any, Any, A], second: Coroutine[Any, Any, B]) -> tuple[A, B]:
    """Run both, and return only when both have ended, also if one fails: the next report may start then."""
    tasks = asyncio.create_task(first), asyncio.create_task(second)
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _rank(entry: Entry) -> tuple[int, str]:
    return (-entry.visitors, entry.name)


async def _refresh_and_read(
    store: ColumnStore, request: ReportRequest, period: Period, refreshing: Awaitable[Mapping[date, int]]
) -> tuple[Mapping[date, int], _Found]:
    runs = await refreshing
    return runs, await _read(store, request, period, runs)


async def _read(
    store: ColumnStore, request: ReportRequest, period: Period, runs: Mapping[date, int]
) -> _Found:
    found = _Found()
    sql = _SQL["all_visits" if request.filters == VisitFilters() else "filtered_visits"]
    result = await store.query(sql, request.parameters(period, runs))
    for kind, name, visitors, numbers, money, value in result.rows:
        if kind == "day":
            views, visits, bounces, judged, duration_ms = numbers
            found.add(name, Figures(views, visitors, visits, bounces, judged, duration_ms))
        elif kind == "converted":
            found.add(name, Figures(converted=visitors))
        elif kind in ("goal_event", "goal_path"):
            found.goals[kind, name] = Conversions(numbers[0], visitors, sorted(map(tuple, money)))
        elif kind == "web_vital":
            found.speed[name] = Speed(value, numbers[0])
        else:
            found.lists[kind].append(Entry(name, visitors, numbers[0]))
    return found
