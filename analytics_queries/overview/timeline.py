"""How many exceptions, visitors and page views were there in each step of a time range?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from analytics_queries.telemetry.direct_rollups import Rollup, Source, direct_rollups, query_sources
from analytics_queries.telemetry.limited_sql import LIMITS, query_limited
from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_statements

_SQL = read_statements(__file__)
_VIEWS_BY_HOUR = Rollup("pageviews", "views_by_hour")


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps of equal length. All times are whole seconds since 1970, and multiples of that length."""

    begin_s: int
    step_s: int
    count: int

    @property
    def end_s(self) -> int:
        return self.begin_s + self.step_s * self.count

    def number_of(self, at_s: float) -> int | None:
        """Return the number of the step that contains this time. None if the time is outside all steps."""
        number = int((at_s - self.begin_s) // self.step_s)
        return number if 0 <= number < self.count else None


class VisitCounts(NamedTuple):
    """Number of visitors and of page views in one step."""

    visitors: int
    views: int


async def count_exceptions(
    store: ColumnStore, environments: Sequence[str], steps: Steps
) -> Mapping[int, int]:
    """Return the number of exceptions by step. Steps without exceptions are left out. Raises
    `StorageUnavailable`."""
    if not environments:
        return {}
    parameters = {"environments": list(environments), **_range(steps)}
    rows = (await query_limited(store, _SQL["exceptions"] + LIMITS, parameters)).rows
    return {_number(steps, step): count for step, count in rows}


async def count_visits(store: ColumnStore, sites: Sequence[int], steps: Steps) -> Mapping[int, VisitCounts]:
    """Return visitors and page views by step. Steps without page views are left out. Raises
    `StorageUnavailable`."""
    if not sites:
        return {}
    parameters = {"sites": list(sites), **_range(steps)}
    if steps.step_s % 3600 == 0 and _VIEWS_BY_HOUR in await direct_rollups(store):
        source = Source(_SQL["visits_by_hour"], _VIEWS_BY_HOUR)
        rows = (await query_sources(store, [source], _SQL["sources"], parameters)).rows
    else:
        rows = (await query_limited(store, _SQL["visits"] + LIMITS, parameters)).rows
    return {_number(steps, step): VisitCounts(visitors, views) for step, visitors, views in rows}


def _range(steps: Steps) -> dict[str, int]:
    return {"begin_s": steps.begin_s, "end_s": steps.end_s, "step_s": steps.step_s}


def _number(steps: Steps, step: int) -> int:
    return step - steps.begin_s // steps.step_s
