"""The two tables of daily rollups: one of past days, one of the unfinished day."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from storage_backends.sql_files import read_sql

_SQL = read_sql(__file__).partition("\n")[2].rstrip()
# Named, because one of the tables gets a new column before the other.
_ALL_COLUMNS = (
    "day, visit_id, visitor, is_single, present_at, is_present, is_start, started_at, duration_ms, is_bounce, source, "
    "campaign, device, country, browser, os, entry_page, exit_page, pages, views, page_views, page_times, other_pages, "
    "actions, vitals, actions.name AS action_names"
)


@dataclass(frozen=True, slots=True)
class Runs:
    """Current runs of rollups."""

    by_day: Mapping[date, int]
    open_days: Collection[date]
    """Days whose rollups are in the table of unfinished days."""

    def of(self, days: Iterable[date]) -> "Runs":
        """Return the runs of the given days, without days that have none."""
        return Runs({day: self.by_day[day] for day in days if day in self.by_day}, self.open_days)


def select_visits(runs: Runs, columns: str = _ALL_COLUMNS) -> str:
    """Return a query for the visits of these runs. It names only tables with rows, because the engine would plan to
    read the other table as well."""
    are_open = {day in runs.open_days for day in runs.by_day} or {True}
    tables = [
        name for name, is_open in (("visit_days", False), ("open_visit_days", True)) if is_open in are_open
    ]
    return "\n        UNION ALL\n".join(
        _SQL.replace("{columns}", columns).replace("{table}", table) for table in tables
    ).strip()
