"""The rows that a report reads: visits by day, as they were told, of those that the filters keep."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Any

from analytics_queries.visits.calendar_days import Period
from analytics_queries.visits.filters import VisitFilters
from storage_backends.sql_files import read_sql

_COLUMNS = (
    "day, visit_id, visitor, is_single, present_at, is_present, is_start, started_at, duration_ms, is_bounce, "
    "source, campaign, device, country, browser, os, entry_page, exit_page, views, pages, page_views, page_times, "
    "other_pages, actions, vitals"
)
# Filters that are not given cost nothing: the engine leaves out what is always true, and the columns that it names.
_ROWS = read_sql(__file__).replace("{{columns}}", _COLUMNS)


def with_kept_rows(sql: str, columns: str) -> str:
    """The SQL with the selection of rows put in: of these columns, `action_names` among them."""
    return sql.replace("{{kept_rows}}", _ROWS.replace("{{chosen}}", columns))


@lru_cache(256)
def with_goals(sql: str, paths: int) -> str:
    """The SQL with what tells a visit that viewed one of so many goals' paths. A text at a time: that is looked up
    among the few different paths of a block, where a list of texts is compared with every page."""
    viewed = " OR ".join(f"has(pages, {{goal_path_{number}:String}})" for number in range(paths))
    return sql.replace("{{viewed_goal}}", f"({viewed or 'false'})")


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
            **{f"goal_path_{number}": path for number, path in enumerate(self.goals.paths)},
        }
