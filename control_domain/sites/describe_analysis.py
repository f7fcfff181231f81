"""Documents of analyses, as the management API returns them."""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from fractions import Fraction
from typing import TypedDict
from zoneinfo import ZoneInfo

from analytics_queries.visit_analysis.conversions import GoalConversions
from analytics_queries.visit_analysis.visit_lists import EntriesOfList
from analytics_queries.visits.calendar_days import Period
from analytics_queries.visits.period_figures import Figures
from analytics_queries.visits.report_rows import Conversions
from control_domain.sites.analysis_query import Interval
from control_domain.sites.describe_report import LIST_UNITS
from control_domain.sites.figure_values import (
    SpeedDocument,
    change_of,
    figure_values,
    percent,
    round_half_away,
)
from control_domain.tables.sites import Goal
from pipeline_contracts.times import format_time

# Calendar days in the site's time zone. `until` is the end of the last day, or the present time if that is earlier.
AnalyzedPeriod = TypedDict("AnalyzedPeriod", {"from": str, "to": str, "days": int, "until": str})
AnalyzedPeriod.__doc__ = "Calendar days of the site, and the time up to which the last day is counted."


class ComparedFigure(TypedDict):
    """A figure of the period and of the compared period. `change` is in percent, or in percentage points for rates."""

    value: float
    previous: float | None
    change: float | None


class AnalyzedMetrics(TypedDict):
    """Figures of a period: `visitors` is the mean of the days' unique visitors; rates are in percent, durations in
    seconds."""

    visitors: ComparedFigure
    visits: ComparedFigure
    pageviews: ComparedFigure
    views_per_visit: ComparedFigure
    bounce_rate: ComparedFigure
    visit_duration: ComparedFigure
    conversion_rate: ComparedFigure


class FiguresOfInterval(TypedDict):
    """The figures of a day (`at` is the date) or an hour (`at` is its start). Hours have no conversions."""

    at: str
    visitors: int
    visits: int
    pageviews: int
    views_per_visit: float
    bounce_rate: float
    visit_duration: float
    conversion_rate: float | None


class FiguresDocument(TypedDict):
    """Figures of a period, compared with another one."""

    period: AnalyzedPeriod
    comparison: AnalyzedPeriod | None
    interval: Interval
    timezone: str
    metrics: AnalyzedMetrics
    series: list[FiguresOfInterval]
    comparison_series: list[FiguresOfInterval]


class ListEntry(TypedDict):
    """An entry of a list: its visitors, and its `number` in the unit of the list."""

    name: str
    visitors: int
    number: int


class ListOfEntries(TypedDict):
    """The first entries of a list, ordered by visitors, then by name. `total` is the number of entries of the whole
    list."""

    unit: str
    total: int
    entries: list[ListEntry]


class ListsDocument(TypedDict):
    """Lists of a period by name."""

    period: AnalyzedPeriod
    lists: dict[str, ListOfEntries]


class GoalRevenue(TypedDict):
    """The sum of revenue in one currency."""

    currency: str
    amount: float


class ReachedGoal(TypedDict):
    """How often a goal was reached. `conversion_rate` is in percent of all visitors of the period."""

    id: int
    name: str
    event: str | None
    path: str | None
    conversions: int
    visitors: int
    conversion_rate: float
    revenue: list[GoalRevenue]


class ConversionsDocument(TypedDict):
    """The goals of a site in a period, in the order of their IDs."""

    period: AnalyzedPeriod
    goals: list[ReachedGoal]


class SpeedOfPage(TypedDict):
    """The Web Vitals of a page."""

    path: str
    lcp: SpeedDocument
    inp: SpeedDocument
    cls: SpeedDocument
    fcp: SpeedDocument
    ttfb: SpeedDocument


class PageSpeedDocument(TypedDict):
    """Web Vitals of all pages of a site together, and of the pages with the most samples."""

    period: AnalyzedPeriod
    metrics: dict[str, SpeedDocument]
    pages: list[SpeedOfPage]


def describe_period(period: Period) -> AnalyzedPeriod:
    return {
        "from": period.first.isoformat(),
        "to": period.last.isoformat(),
        "days": len(period.days),
        "until": format_time(period.end),
    }


def describe_metrics(current: Figures, previous: Figures | None, days: int) -> AnalyzedMetrics:
    """Return the metrics of two periods that have this number of days."""
    values = _values(current, days)
    before = None if previous is None else _values(previous, days)
    return {  # type: ignore[return-value]
        name: {
            "value": values[name],
            "previous": None if before is None else before[name],
            "change": None if before is None else change_of(name, values[name], before[name]),
        }
        for name in AnalyzedMetrics.__annotations__
    }


def describe_days(period: Period, by_day: Mapping[date, Figures]) -> list[FiguresOfInterval]:
    return [{"at": day.isoformat(), **_values(by_day.get(day, Figures()), 1)} for day in period.days]  # type: ignore[typeddict-item]


def describe_hours(period: Period, by_hour: Mapping[int, Figures], timezone: str) -> list[FiguresOfInterval]:
    """Return every hour of the period that has begun: a day of a clock change has 23 or 25."""
    hours = -((period.begin - period.end) // timedelta(hours=1))
    starts = [(period.begin + timedelta(hours=hour)).astimezone(ZoneInfo(timezone)) for hour in range(hours)]
    return [
        {"at": start.isoformat(), **_values(by_hour.get(hour, Figures()), 1), "conversion_rate": None}  # type: ignore[typeddict-item]
        for hour, start in enumerate(starts)
    ]


def _values(figures: Figures, days: int) -> dict[str, float]:
    """Return the values of all metrics."""
    views = float(round_half_away(Fraction(figures.pageviews, figures.visits or 1), 1))
    return {**figure_values(figures, days), "views_per_visit": views}


def describe_list(name: str, found: EntriesOfList) -> ListOfEntries:
    return {
        "unit": LIST_UNITS[name],
        "total": found.total,
        "entries": [
            {"name": entry.name, "visitors": entry.visitors, "number": entry.number}
            for entry in found.entries
        ],
    }


def describe_goals(goals: Sequence[Goal], found: GoalConversions) -> list[ReachedGoal]:
    return [_describe_goal(goal, found) for goal in goals]


def _describe_goal(goal: Goal, found: GoalConversions) -> ReachedGoal:
    by_target = found.paths if goal.event is None else found.events
    conversions = by_target.get(goal.event or goal.path or "", Conversions())
    return {
        "id": goal.id,
        "name": goal.name,
        "event": goal.event,
        "path": goal.path,
        "conversions": conversions.number,
        "visitors": conversions.visitors,
        "conversion_rate": percent(conversions.visitors, found.visitors),
        "revenue": [
            {"currency": currency, "amount": millionths / 1_000_000}
            for currency, millionths in conversions.revenue
        ],
    }
