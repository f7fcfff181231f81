"""Analyses of a site's visits: figures, lists, conversions and page speed of any period, for the dashboard."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from analytics_queries.telemetry.limited_sql import run_together
from analytics_queries.visit_analysis.conditions import Condition
from analytics_queries.visit_analysis.conversions import goal_conversions
from analytics_queries.visit_analysis.daily_figures import daily_figures
from analytics_queries.visit_analysis.hourly_figures import hourly_figures
from analytics_queries.visit_analysis.page_speed import page_speed, speed_of_pages
from analytics_queries.visit_analysis.recent_rollups import CheckedRollups, RecentRollups
from analytics_queries.visit_analysis.request import AnalysisRequest
from analytics_queries.visit_analysis.visit_lists import ListName, entries_of_lists
from analytics_queries.visits.calendar_days import Period
from analytics_queries.visits.period_figures import Figures
from control_domain.sites.analysis_query import (
    Comparison,
    Interval,
    PeriodChoice,
    read_comparison,
    read_interval,
    read_period,
)
from control_domain.sites.describe_analysis import (
    ConversionsDocument,
    FiguresDocument,
    FiguresOfInterval,
    ListsDocument,
    PageSpeedDocument,
    describe_days,
    describe_goals,
    describe_hours,
    describe_list,
    describe_metrics,
    describe_period,
)
from control_domain.sites.figure_values import RATINGS, describe_speed
from control_domain.sites.reports import what_goals_count
from control_domain.tables.sites import Goal, Site
from storage_backends.column_store.interface import ColumnStore

SPEED_PAGES = 100


@dataclass(frozen=True, slots=True)
class VisitAnalysis:
    """An analysis of a site's visits that match the conditions, in the chosen period up to `now`."""

    store: ColumnStore
    rollups: RecentRollups
    site: Site
    goals: Sequence[Goal]
    conditions: Sequence[Condition]
    choice: PeriodChoice
    now: datetime

    def _make_request(self, checked: CheckedRollups) -> AnalysisRequest:
        counted = what_goals_count(self.goals)
        return AnalysisRequest(
            self.site.id,
            self.site.timezone,
            self.conditions,
            counted.events,
            counted.paths,
            # Do not use rollups that were checked for a later request: they may contain later events.
            self.now if checked.now <= self.now else None,
        )

    def read_period(self) -> Period:
        """Return the period. Raises `InvalidInput`."""
        return read_period(self.choice, self.site.timezone, self.now)

    async def figures(
        self, compare: Comparison, compare_from: str | None, interval: Interval | None
    ) -> FiguresDocument:
        """Return the figures and their series. Raises `InvalidInput` and `StorageUnavailable`."""
        timezone, period = self.site.timezone, self.read_period()
        before = read_comparison(period, compare, compare_from, timezone)
        chosen = read_interval(period, interval)
        days = sorted({*period.days, *(before.days if before else ())})
        checked = await self.rollups.check(self.store, self.site.id, timezone, days, self.now)
        periods = [period] if before is None else [period, before]
        found = await run_together(*(self._read_figures(each, chosen, checked) for each in periods))
        current, series = found[0]
        previous, previous_series = found[1] if before is not None else (None, list[FiguresOfInterval]())
        return {
            "period": describe_period(period),
            "comparison": None if before is None else describe_period(before),
            "interval": chosen,
            "timezone": timezone,
            "metrics": describe_metrics(current, previous, len(period.days)),
            "series": series,
            "comparison_series": previous_series,
        }

    async def _read_figures(
        self, period: Period, interval: Interval, checked: CheckedRollups
    ) -> tuple[Figures, list[FiguresOfInterval]]:
        request, runs = self._make_request(checked), checked.runs
        by_day = await daily_figures(self.store, request, period, runs)
        total = sum(by_day.values(), Figures())
        if interval == "day":
            return total, describe_days(period, by_day)
        by_hour = await hourly_figures(self.store, request, period, runs)
        return total, describe_hours(period, by_hour, self.site.timezone)

    async def lists(self, names: Sequence[ListName], search: str, limit: int) -> ListsDocument:
        """Return up to `limit` entries of each list. Raises `InvalidInput` and `StorageUnavailable`."""
        period, request, runs = await self._read_rollups()
        found = await entries_of_lists(self.store, request, period, runs, names, search, limit)
        return {
            "period": describe_period(period),
            "lists": {name: describe_list(name, found[name]) for name in names},
        }

    async def conversions(self) -> ConversionsDocument:
        """Return the goals. Raises `InvalidInput` and `StorageUnavailable`."""
        period, request, runs = await self._read_rollups()
        found = await goal_conversions(self.store, request, period, runs)
        return {"period": describe_period(period), "goals": describe_goals(self.goals, found)}

    async def page_speed(self, *, by_page: bool) -> PageSpeedDocument:
        """Return the Web Vitals, also of single pages if `by_page`. Raises `InvalidInput` and `StorageUnavailable`."""
        period, request, runs = await self._read_rollups()
        found = await page_speed(self.store, request, period, runs)
        pages = await speed_of_pages(self.store, request, period, runs, SPEED_PAGES) if by_page else {}
        return {
            "period": describe_period(period),
            "metrics": {name: describe_speed(name, found.get(name.upper())) for name in RATINGS},
            "pages": [
                {"path": path, **{name: describe_speed(name, speed.get(name.upper())) for name in RATINGS}}  # type: ignore[typeddict-item]
                for path, speed in pages.items()
            ],
        }

    async def _read_rollups(self) -> tuple[Period, AnalysisRequest, Mapping[date, int]]:
        period = self.read_period()
        checked = await self.rollups.check(
            self.store, self.site.id, self.site.timezone, period.days, self.now
        )
        return period, self._make_request(checked), checked.runs
