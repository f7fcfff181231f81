"""What is there to report of a site's visits: figures by day, lists of the most visited, goals, page speed?"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, TypeVar

from analytics_queries.visits.calendar_days import Period, current_period, previous_period
from analytics_queries.visits.filters import VisitFilters
from analytics_queries.visits.hours_of_day import hours_of_day
from analytics_queries.visits.kept_rows import Asked
from analytics_queries.visits.period_figures import Figures, period_figures
from analytics_queries.visits.tell_days import tell_untold
from analytics_queries.visits.told_days import told_days
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
    """How often a goal was reached, by how many visitors, and what it has brought."""

    number: int = 0
    visitors: int = 0
    revenue: Sequence[tuple[str, int]] = ()
    """(currency, millionths of it), in the order of the currencies."""


@dataclass(frozen=True, slots=True)
class Speed:
    """A Web Vital: the smallest value that three quarters of the samples do not exceed."""

    p75: float
    samples: int


@dataclass(frozen=True, slots=True)
class SiteReport:
    """All figures of a report, before they are rounded and named. Lists hold five entries, in their order."""

    period: Period
    current: Figures
    previous: Figures
    by_day: Mapping[date, Figures]
    by_hour: Mapping[int, tuple[int, int, int]]
    """(page views, visitors, visits) by hours since the day's start; empty for more days than one."""
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
        """More figures of the day of this name."""
        day = date.fromisoformat(name)
        self.by_day[day] = self.by_day.get(day, Figures()) + figures


async def site_report(store: ColumnStore, asked: Asked, days: int) -> SiteReport:
    """The report on `days` calendar days up to now. Raises `StorageUnavailable`."""
    current = current_period(days, asked.timezone, asked.now)
    previous = previous_period(current, asked.timezone)
    days_asked = [*previous.days, *current.days]
    told = await told_days(store, asked.site_id, asked.timezone, days_asked, asked.now)
    telling = tell_untold(store, asked.site_id, asked.timezone, told, asked.now)
    if any(one.day < current.first for one in told.untold):
        runs = await telling
        # Side by side: planning one keeps one core busy.
        found, before = await _side_by_side(
            _read(store, asked, current, runs), period_figures(store, asked, previous, runs)
        )
    else:
        # Most often only today has to be told: what was before it need not wait.
        (runs, found), before = await _side_by_side(
            _tell_and_read(store, asked, current, telling), period_figures(store, asked, previous, told.runs)
        )
    by_hour = await hours_of_day(store, asked, current, runs) if days == 1 else {}
    return SiteReport(
        period=current,
        current=sum(found.by_day.values(), Figures()),
        previous=before,
        by_day=found.by_day,
        by_hour=by_hour,
        lists={name: sorted(entries, key=_rank) for name, entries in found.lists.items()},
        event_goals={name: made for (kind, name), made in found.goals.items() if kind == "goal_event"},
        path_goals={name: made for (kind, name), made in found.goals.items() if kind == "goal_path"},
        speed=found.speed,
    )


async def _side_by_side(first: Coroutine[Any, Any, A], second: Coroutine[Any, Any, B]) -> tuple[A, B]:
    """Run both, and return when neither runs any more, also when one has failed: the report's turn ends then."""
    tasks = asyncio.create_task(first), asyncio.create_task(second)
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _rank(entry: Entry) -> tuple[int, str]:
    return (-entry.visitors, entry.name)


async def _tell_and_read(
    store: ColumnStore, asked: Asked, period: Period, telling: Awaitable[Mapping[date, int]]
) -> tuple[Mapping[date, int], _Found]:
    runs = await telling
    return runs, await _read(store, asked, period, runs)


async def _read(store: ColumnStore, asked: Asked, period: Period, runs: Mapping[date, int]) -> _Found:
    found = _Found()
    sql = _SQL["all_visits" if asked.filters == VisitFilters() else "filtered_visits"]
    result = await store.query(sql, asked.parameters(period, runs))
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
