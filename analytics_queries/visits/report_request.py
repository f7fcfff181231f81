"""The parameters of a report on a site's visits."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date, datetime
from typing import Any

from analytics_queries.visits.calendar_days import Period


@dataclass(frozen=True, slots=True)
class VisitFilters:
    """Values that a visit must have; an empty value matches every visit. `path`: a page that it viewed."""

    path: str = ""
    source: str = ""
    campaign: str = ""
    device: str = ""
    country: str = ""

    def parameters(self) -> dict[str, str]:
        """Return the SQL parameters."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Goals:
    """Defines conversions: events with these names, and page views of these paths."""

    events: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportRequest:
    """A site, the visits and the goals of the report, and the current time."""

    site_id: int
    timezone: str
    filters: VisitFilters
    goals: Goals
    now: datetime

    def parameters(self, period: Period, runs: Mapping[date, int]) -> dict[str, Any]:
        """Return the SQL parameters for reading the rollups of the days of a period that are in `runs`."""
        days = [day for day in period.days if day in runs]
        return {
            **self.filters.parameters(),
            "site_id": self.site_id,
            # Give the engine the days of the runs, so that it reads no other days.
            "first": days[0] if days else period.first,
            "last": period.last,
            "runs": [runs[day] for day in days],
            "goal_events": list(self.goals.events),
            "goal_paths": list(self.goals.paths),
        }
