"""The parameters of an analysis of a site's visits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from analytics_queries.visit_analysis.conditions import Condition, condition_parameters
from analytics_queries.visits.calendar_days import Period, day_of, days_between, start_of_day
from analytics_queries.visits.report_request import Goals
from pipeline_contracts.times import to_epoch_ms

_DAY = timedelta(days=1)
# A request waits for less than a minute. If it waits over midnight, another request may meanwhile store the rollup as
# that of a past day.
_MARGIN = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class AnalysisRequest:
    """What an analysis needs: a site, conditions for its visits, its goals, and the time of the request."""

    site_id: int
    timezone: str
    conditions: Sequence[Condition] = ()
    goal_events: Sequence[str] = ()
    goal_paths: Sequence[str] = ()
    now: datetime | None = None
    """The time of the request, or None if rollups may contain later events. With a time, the table `visit_days` is
    only read if a day of the period has ended. With None, both tables are read."""

    @property
    def goals(self) -> Goals:
        """Return the goals: events and paths that count as conversions."""
        return Goals(tuple(self.goal_events), tuple(self.goal_paths))

    def parameters(self, period: Period, runs: Mapping[date, int]) -> dict[str, Any]:
        """Return the SQL parameters for reading the rollups of the period's days that are in `runs`."""
        days = [day for day in period.days if day in runs]
        return {
            **condition_parameters(self.conditions),
            "site_id": self.site_id,
            # Give the engine the days that have runs, so that it reads no other days.
            "first": days[0] if days else period.first,
            "last": period.last,
            "runs": [runs[day] for day in days],
            "begin_ms": to_epoch_ms(period.begin),
            "end_ms": to_epoch_ms(period.end),
            "goal_events": list(self.goal_events),
            "goal_paths": list(self.goal_paths),
            "has_past": self.now is None or any(self._may_be_over(day, self.now) for day in days),
        }

    def _may_be_over(self, day: date, now: datetime) -> bool:
        return start_of_day(day + _DAY, self.timezone) <= now + _MARGIN


def make_period(first: date, last: date, timezone: str, now: datetime) -> Period:
    """Return the period of these days. It ends at `now` at the latest. Raises `ValueError` if it lies in the
    future."""
    begin = start_of_day(first, timezone)
    if last < first or begin > now:
        raise ValueError("the period has no day that has begun")
    last = min(last, day_of(now, timezone))
    return Period(days_between(first, last), begin, min(start_of_day(last + _DAY, timezone), now))


def shift_period(current: Period, first: date, timezone: str) -> Period:
    """Return the period that begins on `first` and has as many days as `current`, to compare the two.

    Its last day is cut after as much time as has passed of the last day of `current`.
    """
    days = days_between(first, first + _DAY * (len(current.days) - 1))
    elapsed = current.end - start_of_day(current.last, timezone)
    end = min(start_of_day(days[-1], timezone) + elapsed, start_of_day(days[-1] + _DAY, timezone))
    return Period(days, start_of_day(first, timezone), end)
