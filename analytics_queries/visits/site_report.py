"""The report on a site's visits: figures by day, top lists, goals, Web Vitals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from analytics_queries.visits.calendar_days import Period, current_period, previous_period
from analytics_queries.visits.daily_rollups import check_rollups
from analytics_queries.visits.day_tables import Runs
from analytics_queries.visits.hours_of_day import hours_of_day
from analytics_queries.visits.period_figures import Figures
from analytics_queries.visits.read_visits import read_all_visits, read_filtered_visits
from analytics_queries.visits.refresh_rollups import refresh_stale_rollups
from analytics_queries.visits.report_request import ReportRequest, VisitFilters
from analytics_queries.visits.report_rows import Conversions, Entry, Speed
from storage_backends.column_store.interface import ColumnStore


@dataclass(frozen=True, slots=True)
class SiteReport:
    """All figures of a report, not rounded. A list has up to five entries, sorted by visitors, the most
    first."""

    period: Period
    current: Figures
    previous: Figures
    by_day: Mapping[date, Figures]
    by_hour: Mapping[int, tuple[int, int, int]]
    """(page views, visitors, visits) by hour. The key counts hours since the start of the day. Empty if the
    report covers several days."""
    lists: Mapping[str, Sequence[Entry]]
    event_goals: Mapping[str, Conversions]
    path_goals: Mapping[str, Conversions]
    speed: Mapping[str, Speed]


async def site_report(store: ColumnStore, request: ReportRequest, days: int) -> SiteReport:
    """Return the report on the last `days` calendar days, up to now. Stale rollups are refreshed first. Raises
    `StorageUnavailable`."""
    current = current_period(days, request.timezone, request.now)
    previous = previous_period(current, request.timezone)
    all_days = [*previous.days, *current.days]
    rollups = await check_rollups(store, request.site_id, request.timezone, all_days, request.now)
    refreshing = refresh_stale_rollups(store, request.site_id, request.timezone, rollups, request.now)
    runs = rollups.runs
    if any(not rollup.is_open for rollup in rollups.stale):
        runs = await refreshing
        refreshing = _return(runs)
    # Usually only the rollup of today is stale. Queries of past days need not wait until it is refreshed.
    read = read_all_visits if request.filters == VisitFilters() else read_filtered_visits
    all_runs, found, previous_figures = await read(
        store, request, current, previous, Runs(runs, rollups.open_days), refreshing
    )
    by_hour = await hours_of_day(store, request, current, all_runs) if days == 1 else {}
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


async def _return(runs: Mapping[date, int]) -> Mapping[date, int]:
    return runs


def _rank(entry: Entry) -> tuple[int, str]:
    return (-entry.visitors, entry.name)
