"""The rows that a report reads: visits by day, as they were told, of those that the filters keep."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from analytics_queries.visits.calendar_days import Period
from analytics_queries.visits.filters import VisitFilters


@dataclass(frozen=True, slots=True)
class Goals:
    """What counts as a conversion: events of these names, page views of these paths."""

    events: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """Whose visits a report is on, and when it is now."""

    site_id: int
    timezone: str
    filters: VisitFilters
    goals: Goals
    now: datetime

    def parameters(self, period: Period, runs: Mapping[date, int]) -> dict[str, Any]:
        """What the SQL is bound to that reads the rows of a period. `runs` tell of its days."""
        return {
            **self.filters.parameters(),
            "site_id": self.site_id,
            "first": period.first,
            "last": period.last,
            "runs": [run for day, run in runs.items() if period.first <= day <= period.last],
            "goal_events": list(self.goals.events),
            "goal_paths": list(self.goals.paths),
        }
