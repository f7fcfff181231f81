"""How many exceptions, visitors and page views were there in each step of a time range?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from analytics_queries.telemetry.limited_sql import query_limited, read_limited_statements
from storage_backends.column_store.interface import ColumnStore

_SQL = read_limited_statements(__file__)


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps of equal length; all times are whole seconds since 1970, and multiples of the length."""

    begin_s: int
    step_s: int
    count: int

    @property
    def end_s(self) -> int:
        return self.begin_s + self.step_s * self.count

    def number_of(self, at_s: float) -> int | None:
        """Return the number of the step that this time lies in; None outside of all."""
        number = int((at_s - self.begin_s) // self.step_s)
        return number if 0 <= number < self.count else None


class VisitCounts(NamedTuple):
    """Visitors and page views of a step."""

    visitors: int
    views: int


async def count_exceptions(
    store: ColumnStore, environments: Sequence[str], steps: Steps
) -> Mapping[int, int]:
    """Return the number of exceptions of each step that has any. Raises `StorageUnavailable`."""
    if not environments:
        return {}
    parameters = {"environments": list(environments), **_range(steps)}
    rows = (await query_limited(store, _SQL["exceptions"], parameters)).rows
    return {_number(steps, step): count for step, count in rows}


async def count_visits(store: ColumnStore, sites: Sequence[int], steps: Steps) -> Mapping[int, VisitCounts]:
    """Return visitors and page views of each step that has any. Raises `StorageUnavailable`."""
    if not sites:
        return {}
    rows = (await query_limited(store, _SQL["visits"], {"sites": list(sites), **_range(steps)})).rows
    return {_number(steps, step): VisitCounts(visitors, views) for step, visitors, views in rows}


def _range(steps: Steps) -> dict[str, int]:
    return {"begin_s": steps.begin_s, "end_s": steps.end_s, "step_s": steps.step_s}


def _number(steps: Steps, step: int) -> int:
    return step - steps.begin_s // steps.step_s
