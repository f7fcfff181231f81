"""Describes a report as the API returns it: counts become means, rates and changes, rounded in one way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from analytics_queries.visits.calendar_days import Period
from analytics_queries.visits.period_figures import Figures
from analytics_queries.visits.report_request import VisitFilters
from analytics_queries.visits.site_report import Conversions, Entry, SiteReport, Speed

_LISTS = {
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
# The largest good value of a metric, and the largest that needs improvement (web.dev/articles/vitals).
_RATINGS = {
    "lcp": (2500, 4000),
    "inp": (200, 500),
    "cls": (0.1, 0.25),
    "fcp": (1800, 3000),
    "ttfb": (800, 1800),
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
    """Return the document under `data`; docs/analytics.md describes its members."""
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
        **{name: _entries(report.lists.get(name, ()), number) for name, number in _LISTS.items()},
        "goals": [_goal(goal, report) for goal in site.goals],
        "page_speed": {name: _speed(name, report.speed.get(name.upper())) for name in _RATINGS},
    }


def _metrics(current: Figures, previous: Figures, days: int) -> dict[str, Any]:
    values = zip(_values(current, days).items(), _values(previous, days).values(), strict=True)
    return {
        name: {
            "value": value,
            "previous": before,
            # For rates, the difference in percentage points.
            "change": float(_round(_exact(value) - _exact(before), 1))
            if name.endswith("_rate")
            else _change(value, before),
        }
        for (name, value), before in values
    }


def _values(figures: Figures, days: int) -> dict[str, float]:
    return {
        "pageviews": figures.pageviews,
        "visitors": int(_round(Fraction(figures.visitors, days))),
        "visits": figures.visits,
        "conversion_rate": _percent(figures.converted, figures.visitors),
        "bounce_rate": _percent(figures.bounces, figures.judged),
        "visit_duration": int(_round(Fraction(figures.duration_ms, 1000 * (figures.judged or 1)))),
    }


def _round(value: Fraction, decimals: int = 0) -> Fraction:
    """Round half away from zero."""
    scale = 10**decimals
    scaled = abs(value) * scale
    whole = int(scaled + Fraction(1, 2))
    return Fraction(whole if value >= 0 else -whole, scale)


def _exact(figure: float) -> Fraction:
    """Return the exact value of a figure with one decimal."""
    return Fraction(round(figure * 10), 10)


def _percent(part: int, whole: int) -> float:
    return float(_round(Fraction(100 * part, whole), 1)) if whole else 0.0


def _change(value: float, before: float) -> float:
    if not before:
        return 100.0 if value else 0.0
    return float(_round((_exact(value) - _exact(before)) * 100 / _exact(before), 1))


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
        "conversion_rate": _percent(conversions.visitors, report.current.visitors),
        "revenue": [
            {"currency": currency, "amount": millionths / 1_000_000}
            for currency, millionths in conversions.revenue
        ],
    }


def _speed(name: str, speed: Speed | None) -> dict[str, Any]:
    unit = "" if name == "cls" else "ms"
    if speed is None:
        return {"p75": None, "unit": unit, "rating": None, "samples": 0}
    good, fair = _RATINGS[name]
    rating = "good" if speed.p75 <= good else "needs-improvement" if speed.p75 <= fair else "poor"
    return {"p75": speed.p75, "unit": unit, "rating": rating, "samples": speed.samples}
