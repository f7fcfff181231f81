"""How many requests did services serve in each step of a time range, how many failed, and how long did they take?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from analytics_queries.telemetry.limited_sql import LIMITS, query_limited
from analytics_queries.telemetry.time_range import SECOND_NS, TimeRange, from_nanoseconds, microseconds_from
from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_statements

_SQL = read_statements(__file__)
_MINUTE_S = 60
_HOUR_S = 3600
# The only step of a range that is not divided.
_ONE_STEP_S = 2**32 - 1
READ_ROLLUPS = ", optimize_functions_to_subcolumns = 0"
"""Appended to the settings of a query: with the engine's default, it would not recognize the expressions of rollups."""


class Percentiles(NamedTuple):
    """Percentiles of durations in milliseconds, with an error of at most 1 %; None if no request has a duration."""

    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class RequestStep:
    """The requests of a service in one step."""

    service: str
    step: int
    """The step begins at so many times its length since 1970."""
    requests: int
    errors: int
    durations: Percentiles


@dataclass(frozen=True, slots=True)
class RolledUpRange:
    """A time range as the whole hours, the other whole minutes and the rest of it. Seconds since 1970."""

    within: TimeRange
    hours: tuple[int, int]
    minutes: tuple[int, int]
    """From the first whole minute to the last one, the hours included."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the sources in `.sql` files."""
        begin_s, end_s = self.minutes
        edges = (self.within.start, begin_s * SECOND_NS, end_s * SECOND_NS, self.within.end - 1)
        days = {from_nanoseconds(time).date() for time in edges}
        if begin_s == end_s:
            days |= {from_nanoseconds(time).date() for time in _days_between(self.within)}
        return {
            "begin_us": microseconds_from(self.within.start),
            "end_us": microseconds_from(self.within.end),
            "minutes_begin_s": begin_s,
            "minutes_end_s": end_s,
            "hours_begin_s": self.hours[0],
            "hours_end_s": self.hours[1],
            "row_days": sorted(days),
        }

    @property
    def sources(self) -> Sequence[str]:
        """Return what has to be read: `hours`, `minutes` and `rows`."""
        (hour, past_hour), (minute, past_minute) = self.hours, self.minutes
        found = []
        if hour < past_hour:
            found.append("hours")
        if minute < hour or past_hour < past_minute:
            found.append("minutes")
        if self.within.start < minute * SECOND_NS or past_minute * SECOND_NS < self.within.end:
            found.append("rows")
        return found


def _days_between(within: TimeRange) -> range:
    return range(within.start, within.end, 86_400 * SECOND_NS)


def roll_up(within: TimeRange, step_s: int | None, *, has_minutes: bool = True) -> RolledUpRange:
    """Return the range in whole hours, minutes and the rest, as far as steps of this length consist of these. None: one
    step. `has_minutes`: False if there is no rollup by minute."""
    minutes = _whole(within, _MINUTE_S if has_minutes else _HOUR_S)
    hours = _whole(within, _HOUR_S)
    if step_s is not None and step_s % _HOUR_S:
        hours = (minutes[1], minutes[1])
    if step_s is not None and step_s % _MINUTE_S:
        past_last = -(-within.end // SECOND_NS)
        hours = minutes = (past_last, past_last)
    return RolledUpRange(within, hours, minutes)


def _whole(within: TimeRange, unit_s: int) -> tuple[int, int]:
    """Return the first and the last boundary of whole units in the range; both are its end if there is none."""
    begin = -(-within.start // (unit_s * SECOND_NS)) * unit_s
    end = within.end // (unit_s * SECOND_NS) * unit_s
    if begin < end:
        return begin, end
    past_last = -(-within.end // SECOND_NS)
    return past_last, past_last


async def request_steps(
    store: ColumnStore,
    environment_id: str,
    within: TimeRange,
    *,
    step_s: int | None = None,
    services: Sequence[str] = (),
    after: str | None = None,
    has_durations: bool = True,
    limit: int,
) -> Sequence[RequestStep]:
    """Return the requests of each service and step, in the order of services and steps.

    Steps without requests are left out. `step_s`: the length of steps; None: one. `services`: only these, if there are
    any; `after`: only services after this one. Raises `StorageUnavailable`.
    """
    rolled_up = roll_up(within, step_s)
    arms = [_SQL[f"{signal}_{source}"] for signal in ("event", "span") for source in rolled_up.sources]
    question = _SQL["figures" if has_durations else "counts"]
    sql = join_sources(arms, question)
    parameters = {
        "environment": environment_id,
        **rolled_up.parameters,
        "step_s": _ONE_STEP_S if step_s is None else step_s,
        "services": list(services),
        "has_after": after is not None,
        "after": after or "",
        "limit": limit,
    }
    rows = (await query_limited(store, sql, parameters, settings=READ_ROLLUPS)).rows
    return [
        RequestStep(service, step, requests, errors, Percentiles(*map(finite, percentiles)))
        for service, step, requests, errors, percentiles in rows
    ]


def join_sources(sources: Sequence[str], question: str) -> str:
    """Return the text of a question about the rows of all sources, which it calls `sources`."""
    union = "\nUNION ALL\n".join(sources)
    return f"WITH sources AS\n(\n{union}\n)\n{question}{LIMITS}"


def finite(value: float) -> float | None:
    """Return the value, or None if it is no number: a percentile of no durations."""
    return value if math.isfinite(value) else None
