"""Describes a report as the API returns it: computes means, rates and changes from counts, all rounded alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

from analytics_queries.visits.calendar_days import Period
from analytics_queries.visits.period_figures import Figures
from analytics_queries.visits.report_request import VisitFilters
from analytics_queries.visits.report_rows import Conversions, Entry
from analytics_queries.visits.site_report import SiteReport
from control_domain.sites.figure_values import RATINGS, change_of, describe_speed, figure_values, percent

LIST_UNITS = {
    "pages": "pageviews",
    "entry_pages": "visits",
    "exit_pages": "visits",
    "sources": "visits",
    "countries": "visits",
    "campaigns": "visits",
    "devices": "visits",
    "browsers": "visits",
    "operating_systems": "visits",
    "outbound_links": "events",
    "file_downloads": "events",
    "missing_pages": "events",
}


@dataclass(frozen=True, slots=True)
class ReportedGoal:
    """A goal: events of this name, or views of this path."""

    id: int
    name: str
    event: str | None
    path: str | None


@dataclass(frozen=True, slots=True)
class ReportedSite:
    """The parts of a site that a report shows."""

    id: int
    name: str
    timezone: str
    goals: Sequence[ReportedGoal]


def describe_report(site: ReportedSite, filters: VisitFilters, report: SiteReport) -> dict[str, Any]:
    """Return the document under `data`; docs/reference/analytics.md describes its members."""
    period = report.period
    days = len(period.days)
    return {
        "site": {"id": site.id, "name": site.name, "timezone": site.timezone},
        "period": {
            "days": days,
            "from": period.first.isoformat(),
            "to": period.last.isoformat(),
            "interval": "hour" if days == 1 else "day",
            "timezone": site.timezone,
        },
        "filters": {name: value or None for name, value in filters.parameters().items()},
        "metrics": _metrics(report.current, report.previous, days),
        "series": _hours(report, site.timezone) if days == 1 else _days(report),
        **{name: _entries(report.lists.get(name, ()), number) for name, number in LIST_UNITS.items()},
        "goals": [_goal(goal, report) for goal in site.goals],
        "page_speed": {name: describe_speed(name, report.speed.get(name.upper())) for name in RATINGS},
    }


def _metrics(current: Figures, previous: Figures, days: int) -> dict[str, Any]:
    values = zip(figure_values(current, days).items(), figure_values(previous, days).values(), strict=True)
    return {
        name: {"value": value, "previous": before, "change": change_of(name, value, before)}
        for (name, value), before in values
    }


def _days(report: SiteReport) -> list[dict[str, Any]]:
    no_visits = Figures()
    by_day = [(day, report.by_day.get(day, no_visits)) for day in report.period.days]
    return [
        {
            "at": day.isoformat(),
            "pageviews": figures.pageviews,
            "visitors": figures.visitors,
            "visits": figures.visits,
        }
        for day, figures in by_day
    ]


def _hours(report: SiteReport, timezone: str) -> list[dict[str, Any]]:
    """Return every hour that has begun, in the site's time zone: 23 or 25 on the day of a clock change."""
    series = []
    for hour in range(_count_hours(report.period)):
        start = (report.period.begin + timedelta(hours=hour)).astimezone(ZoneInfo(timezone))
        views, visitors, visits = report.by_hour.get(hour, (0, 0, 0))
        series.append({"at": start.isoformat(), "pageviews": views, "visitors": visitors, "visits": visits})
    return series


def _count_hours(period: Period) -> int:
    return (period.end - period.begin) // timedelta(hours=1) + 1


def _entries(entries: Sequence[Entry], number: str) -> list[dict[str, Any]]:
    return [{"name": entry.name, "visitors": entry.visitors, number: entry.number} for entry in entries]


def _goal(goal: ReportedGoal, report: SiteReport) -> dict[str, Any]:
    by_target: Mapping[str, Conversions]
    by_target, target = (
        (report.event_goals, goal.event) if goal.event is not None else (report.path_goals, goal.path)
    )
    conversions = by_target.get(target or "", Conversions())
    return {
        "id": goal.id,
        "name": goal.name,
        "conversions": conversions.number,
        "visitors": conversions.visitors,
        "conversion_rate": percent(conversions.visitors, report.current.visitors),
        "revenue": [
            {"currency": currency, "amount": millionths / 1_000_000}
            for currency, millionths in conversions.revenue
        ],
    }
