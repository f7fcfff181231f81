"""How often did the visitors of a site reach its goals, and how much revenue did this make?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from analytics_queries.telemetry.limited_sql import query_limited, read_limited_sql
from analytics_queries.visit_analysis.conditions import filter_visits
from analytics_queries.visit_analysis.request import AnalysisRequest
from analytics_queries.visits.calendar_days import Period, whole_days
from analytics_queries.visits.period_figures import Figures
from analytics_queries.visits.report_rows import Conversions
from analytics_queries.visits.stored_days import read_stored_conversions, stored_days
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_sql(__file__)


@dataclass(frozen=True, slots=True)
class GoalConversions:
    """The number of visitors in a period, and the conversions by event and by path."""

    visitors: int
    events: Mapping[str, Conversions]
    paths: Mapping[str, Conversions]


async def goal_conversions(
    store: ColumnStore, request: AnalysisRequest, period: Period, runs: Mapping[date, int]
) -> GoalConversions:
    """Return the conversions of the goals in `request`. Raises `StorageUnavailable`."""
    stored: Mapping[date, Figures] = {}
    rows: list[Sequence[Any]] = []
    if not request.conditions:
        days = whole_days(period, request.timezone)
        stored = await stored_days(store, request.site_id, request.goals, days, runs)
        if stored:
            rows += await read_stored_conversions(store, request.site_id, request.goals, list(stored), runs)
    others = {day: run for day, run in runs.items() if day in period.days and day not in stored}
    if others:
        rows += (
            await query_limited(
                store, filter_visits(_SQL, request.conditions), request.parameters(period, others)
            )
        ).rows
    visitors = sum(figures.visitors for figures in stored.values())
    found: dict[str, dict[str, Conversions]] = {"goal_event": {}, "goal_path": {}}
    for kind, name, people, number, money in rows:
        if kind == "visitors":
            visitors += int(people)
        else:
            before = found[kind].get(name, Conversions())
            found[kind][name] = before + Conversions(int(number), int(people), [*map(tuple, money)])
    return GoalConversions(visitors, found["goal_event"], found["goal_path"])
