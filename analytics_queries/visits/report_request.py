"""The parameters of a report on a site's visits."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date, datetime
from typing import Any

from analytics_queries.visits.calendar_days import Period


@dataclass(frozen=True, slots=True)
class VisitFilters:
    """Values that a visit must have. An empty value matches every visit. `path`: a page that the visit
    viewed."""

    path: str = ""
    source: str = ""
    campaign: str = ""
    device: str = ""
    country: str = ""

    def parameters(self) -> dict[str, str]:
        """Return the filters as SQL parameters."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Goals:
    """Defines which events count as conversions: events with these names, and page views of these
    paths."""

    events: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """What a report needs: a site, filters for its visits, its goals, and the current time."""

    site_id: int
    timezone: str
    filters: VisitFilters
    goals: Goals
    now: datetime

    def parameters(self, period: Period, runs: Mapping[date, int]) -> dict[str, Any]:
        """Return the SQL parameters for reading the rollups of the period's days that are in `runs`."""
        days = [day for day in period.days if day in runs]
        return {
            **self.filters.parameters(),
            "site_id": self.site_id,
            # Give the engine the days that have runs, so that it reads no other days.
            "first": days[0] if days else period.first,
            "last": period.last,
            "runs": [runs[day] for day in days],
            "goal_events": list(self.goals.events),
            "goal_paths": list(self.goals.paths),
        }
