"""How many page views, visitors, visits and conversions did a site have in a period?"""

from dataclasses import dataclass

from analytics_queries.visits.calendar_days import Period
from analytics_queries.visits.day_tables import Runs, select_visits
from analytics_queries.visits.report_request import ReportRequest
from pipeline_contracts.times import to_epoch_ms
from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_statements

_SQL = read_statements(__file__)


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a site in a period."""

    pageviews: int = 0
    visitors: int = 0
    """Number of different pairs of a visitor and a day."""
    visits: int = 0
    bounces: int = 0
    judged: int = 0
    """Number of visits that count for bounces and duration. With a filter on the path, these are the visits that began
    on that path."""
    duration_ms: int = 0
    """The sum of the durations of the judged visits in milliseconds."""
    converted: int = 0
    """Number of visitors with a conversion of any goal."""

    def __add__(self, other: "Figures") -> "Figures":
        return Figures(
            self.pageviews + other.pageviews,
            self.visitors + other.visitors,
            self.visits + other.visits,
            self.bounces + other.bounces,
            self.judged + other.judged,
            self.duration_ms + other.duration_ms,
            self.converted + other.converted,
        )


async def period_figures(store: ColumnStore, request: ReportRequest, period: Period, runs: Runs) -> Figures:
    """Return the figures of the period's days that are in `runs`. The last day counts up to `period.end`. Raises
    `StorageUnavailable`."""
    chosen = runs.of(period.days)
    parts = []
    if chosen.by_day.keys() - {period.last}:
        parts.append("whole_days")
    if period.last in chosen.by_day:
        parts.append("cut_day")
    if not parts:
        return Figures()
    visits = _SQL["visits"].replace("{visits_of_days}", select_visits(chosen))
    sql = visits + "\n" + "\nUNION ALL\n".join(_SQL[name] for name in parts)
    parameters = {
        **request.parameters(period, chosen.by_day),
        "cut": period.last,
        "end_ms": to_epoch_ms(period.end),
    }
    rows = (await store.query(sql, parameters)).rows
    return sum((Figures(*map(int, row)) for row in rows), Figures())
