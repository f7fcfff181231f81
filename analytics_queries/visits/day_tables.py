"""The two tables of daily rollups: one for past days, one for the unfinished day."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from storage_backends.sql_files import read_sql

_SQL = read_sql(__file__).partition("\n")[2].rstrip()
# List the columns by name, because one table gets a new column before the other does.
_ALL_COLUMNS = (
    "day, visit_id, visitor, is_single, present_at, is_present, is_start, started_at, duration_ms, is_bounce, source, "
    "campaign, device, country, browser, os, entry_page, exit_page, pages, views, page_views, page_times, other_pages, "
    "actions, vitals, actions.name AS action_names"
)


@dataclass(frozen=True, slots=True)
class Runs:
    """The current run of each rollup. A run is one computation of a rollup; its number marks the rows."""

    by_day: Mapping[date, int]
    open_days: Collection[date]
    """Days whose rollups are in the table of unfinished days."""

    def of(self, days: Iterable[date]) -> "Runs":
        """Return the runs of these days. Days that have no run are left out."""
        return Runs({day: self.by_day[day] for day in days if day in self.by_day}, self.open_days)


def select_visits(runs: Runs, columns: str = _ALL_COLUMNS) -> str:
    """Return a query for the visits of these runs. It names only the tables that have rows of the runs: otherwise the
    engine would also plan to read the other table."""
    are_open = {day in runs.open_days for day in runs.by_day} or {True}
    tables = [
        name for name, is_open in (("visit_days", False), ("open_visit_days", True)) if is_open in are_open
    ]
    return "\n        UNION ALL\n".join(
        _SQL.replace("{columns}", columns).replace("{table}", table) for table in tables
    ).strip()
