"""How many requests did services serve in each step of a time range, how many failed, and how long did they take?"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from analytics_queries.telemetry.direct_rollups import Rollup, Source, direct_rollups, query_sources
from analytics_queries.telemetry.time_range import SECOND_NS, TimeRange, from_nanoseconds, microseconds_from
from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_statements

_SQL = read_statements(__file__)
_MINUTE_S = 60
_HOUR_S = 3600
_DAY_S = 86_400
# The length of the only step, if the range is not divided into steps.
_ONE_STEP_S = 2**32 - 1
_TABLES = {"event": "telemetry_events", "span": "otel_traces"}


class Percentiles(NamedTuple):
    """Percentiles of durations in milliseconds. The error is at most 1 %. None if no request has a duration."""

    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class RequestStep:
    """The requests of a service in one step."""

    service: str
    step: int
    """The number of the step: it counts steps of this length since 1970."""
    requests: int
    errors: int
    durations: Percentiles


@dataclass(frozen=True, slots=True)
class RolledUpRange:
    """A time range, split into whole days, whole hours, whole minutes, and the rest. Times are seconds since
    1970."""

    within: TimeRange
    hours: tuple[int, int]
    """From the first to the last boundary of a whole hour. This includes the whole days."""
    minutes: tuple[int, int]
    """From the first to the last boundary of a whole minute. This includes the whole hours."""
    days: tuple[int, int] | None = None
    """The whole days in UTC. None if the range contains no whole day."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the parameters for the sources in `.sql` files."""
        begin_s, end_s = self.minutes
        edges = (self.within.start, begin_s * SECOND_NS, end_s * SECOND_NS, self.within.end - 1)
        row_days = {from_nanoseconds(time).date() for time in edges}
        if begin_s == end_s:
            row_days |= {from_nanoseconds(time).date() for time in _days_between(self.within)}
        days = self.days or (self.hours[1], self.hours[1])
        return {
            "begin_us": microseconds_from(self.within.start),
            "end_us": microseconds_from(self.within.end),
            "minutes_begin_s": begin_s,
            "minutes_end_s": end_s,
            "hours_begin_s": self.hours[0],
            "hours_end_s": self.hours[1],
            "days_begin_s": days[0],
            "days_end_s": days[1],
            "row_days": sorted(row_days),
        }

    @property
    def sources(self) -> Sequence[str]:
        """Return the names of the sources to read, out of `days`, `hours`, `minutes` and `rows`."""
        (hour, past_hour), (minute, past_minute) = self.hours, self.minutes
        day, past_day = self.days or (past_hour, past_hour)
        found = []
        if day < past_day:
            found.append("days")
        if hour < day or past_day < past_hour:
            found.append("hours")
        if minute < hour or past_hour < past_minute:
            found.append("minutes")
        if self.within.start < minute * SECOND_NS or past_minute * SECOND_NS < self.within.end:
            found.append("rows")
        return found


def _days_between(within: TimeRange) -> range:
    return range(within.start, within.end, _DAY_S * SECOND_NS)


def roll_up(
    within: TimeRange, step_s: int | None, *, has_minutes: bool = True, has_days: bool = False
) -> RolledUpRange:
    """Split the range into whole days, hours, minutes and the rest. Use only units that divide a step of `step_s`
    seconds evenly (None: a single step). `has_minutes`, `has_days`: True if there are rollups by minute and by
    day."""
    minutes = _whole(within, _MINUTE_S if has_minutes else _HOUR_S)
    hours = _whole(within, _HOUR_S)
    whole_days = _whole(within, _DAY_S)
    fits_days = has_days and (step_s is None or step_s % _DAY_S == 0)
    days = whole_days if fits_days and whole_days[0] < whole_days[1] else None
    if step_s is not None and step_s % _HOUR_S:
        hours = (minutes[1], minutes[1])
    if step_s is not None and step_s % _MINUTE_S:
        past_last = -(-within.end // SECOND_NS)
        hours = minutes = (past_last, past_last)
    return RolledUpRange(within, hours, minutes, days)


def _whole(within: TimeRange, unit_s: int) -> tuple[int, int]:
    """Return the first and the last boundary of a whole unit in the range. If the range has no such boundary, both
    are the end of the range."""
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
    """Return the requests of each service in each step, sorted by service and by step.

    Steps without requests are left out. `step_s`: the length of a step in seconds; None for a single step.
    `services`: read only these services, unless it is empty. `after`: read only services whose names come after this
    one. Raises `StorageUnavailable`.
    """
    parameters = {
        "services": list(services),
        "has_after": after is not None,
        "after": after or "",
        "limit": limit,
    }
    question = "figures" if has_durations else "counts"
    rows = await _ask(store, environment_id, within, step_s, question, parameters)
    return [
        RequestStep(service, step, requests, errors, Percentiles(*map(finite, percentiles)))
        for service, step, requests, errors, percentiles in rows
    ]


async def request_series(
    store: ColumnStore, environment_id: str, within: TimeRange, *, service: str, step_s: int, limit: int
) -> tuple[RequestStep | None, Sequence[RequestStep]]:
    """Return the requests of a service in the whole range (None if there are none), and the requests in each of up
    to `limit` steps. Steps without requests are left out. Raises `StorageUnavailable`."""
    # Read one more row, which is for the whole range.
    parameters = {"services": [service], "limit": limit + 1}
    rows = await _ask(store, environment_id, within, step_s, "series", parameters)
    found = [
        RequestStep(service, step, requests, errors, Percentiles(*map(finite, percentiles)))
        for _, step, requests, errors, percentiles in rows
    ]
    return (found[0], found[1:]) if found else (None, [])


async def _ask(
    store: ColumnStore,
    environment_id: str,
    within: TimeRange,
    step_s: int | None,
    question: str,
    parameters: Mapping[str, Any],
) -> Sequence[Sequence[Any]]:
    direct = await direct_rollups(store)
    rolled_up = roll_up(within, step_s, has_days=have_days("requests", direct))
    sources = [
        Source(_SQL[f"{signal}_{unit}"], find_rollup("requests", signal, unit))
        for signal in ("event", "span")
        for unit in rolled_up.sources
    ]
    asked = {
        "environment": environment_id,
        **rolled_up.parameters,
        "step_s": _ONE_STEP_S if step_s is None else step_s,
        **parameters,
    }
    return (await query_sources(store, sources, _SQL[question], asked)).rows


def find_rollup(what: str, signal: str, unit: str) -> Rollup | None:
    """Return the rollup of `requests` or `calls` of this signal by `minutes`, `hours` or `days`. None for `rows`,
    which are no rollup."""
    return None if unit == "rows" else Rollup(_TABLES[signal], f"{what}_by_{unit.removesuffix('s')}")


def have_days(what: str, direct: frozenset[Rollup]) -> bool:
    """Return True if the daily rollups of `requests` or `calls` can be read directly."""
    return all(find_rollup(what, signal, "days") in direct for signal in _TABLES)


def finite(value: float) -> float | None:
    """Return the value. Return None if it is NaN, as is the percentile of an empty set of durations."""
    return value if math.isfinite(value) else None
