"""Which routes and jobs, or which database queries, took the most time in a time range?"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from analytics_queries.telemetry.direct_rollups import Source, direct_rollups, query_sources
from analytics_queries.telemetry.request_rollups import Percentiles, find_rollup, finite, have_days, roll_up
from analytics_queries.telemetry.time_range import TimeRange
from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_statements

_SQL = read_statements(__file__)

CallKind = Literal["request", "job", "query"]
CallSort = Literal["time", "mean", "calls", "errors"]
_UNKNOWN = Percentiles(None, None, None)
_SIGNALS = ("event", "span")


class CallKey(NamedTuple):
    """Identifies a kind of call: its service and its name."""

    service: str
    kind: CallKind
    name: str
    """The first 500 characters of the route, of the name of the job or span, or of the statement."""


@dataclass(frozen=True, slots=True)
class CallFigures:
    """The figures of all calls of one route, job or statement."""

    key: CallKey
    calls: int
    errors: int
    total_ms: float
    durations: Percentiles


async def slowest_calls(
    store: ColumnStore,
    environment_id: str,
    within: TimeRange,
    *,
    are_queries: bool,
    service: str = "",
    sort: CallSort = "time",
    limit: int,
) -> tuple[Sequence[CallFigures], int]:
    """Return at most `limit` kinds of calls, sorted by `sort`, the largest first. Also return how many kinds of calls
    there are.

    With `are_queries`, the calls are database queries: telemetry events of the type query, and spans of the kind
    Client with the attribute `db.system.name` or `db.system`; without it, they are telemetry events of the types
    request and job, and spans of the kinds Server and Consumer. Raises `StorageUnavailable`.
    """
    has_days = have_days("calls", await direct_rollups(store))
    rolled_up = roll_up(within, None, has_minutes=False, has_days=has_days)
    units = [unit for unit in rolled_up.sources if unit != "minutes"]
    parameters: dict[str, Any] = {
        "environment": environment_id,
        **rolled_up.parameters,
        "types": ["query"] if are_queries else ["request", "job"],
        "kinds": ["Client"] if are_queries else ["Server", "Consumer"],
        "service": service,
        "sort": sort,
        "limit": limit,
    }
    durations: Mapping[CallKey, Percentiles]
    if units == ["rows"]:
        # The range has only raw rows. Read them once, together with the percentiles.
        asked = {**parameters, "calls": []}
        rows = (await _ask(store, units, "top_calls_with_percentiles", asked, suffix="_durations")).rows
        keys = [CallKey(*row[:3]) for row in rows]
        durations = {key: Percentiles(*map(finite, row[7])) for key, row in zip(keys, rows, strict=True)}
    else:
        rows = (await _ask(store, units, "top_calls", parameters)).rows
        keys = [CallKey(*row[:3]) for row in rows]
        signals = {signal for row in rows for signal in row[7]}
        durations = await _read_durations(store, units, signals, keys, parameters)
    calls = [
        CallFigures(key, row[3], row[4], row[5], durations.get(key, _UNKNOWN))
        for key, row in zip(keys, rows, strict=True)
    ]
    return calls, rows[0][6] if rows else 0


async def _read_durations(
    store: ColumnStore,
    units: Sequence[str],
    signals: Collection[str],
    keys: Sequence[CallKey],
    parameters: Mapping[str, Any],
) -> Mapping[CallKey, Percentiles]:
    """Return the percentiles of these calls. Percentiles cost the most, so they are read only for few calls, and only
    from the sources that have these calls."""
    if not keys:
        return {}
    asked = {**parameters, "calls": [(key.service, key.name) for key in keys]}
    found = await _ask(store, units, "percentiles", asked, suffix="_durations", signals=signals)
    return {
        CallKey(service, kind, name): Percentiles(*map(finite, percentiles))
        for service, kind, name, percentiles in found.rows
    }


async def _ask(
    store: ColumnStore,
    units: Sequence[str],
    question: str,
    parameters: Mapping[str, Any],
    suffix: str = "",
    signals: Collection[str] = _SIGNALS,
) -> Any:
    sources = [
        Source(_SQL[f"{signal}_{unit}{suffix}"], find_rollup("calls", signal, unit))
        for signal in _SIGNALS
        if signal in signals
        for unit in units
    ]
    return await query_sources(store, sources, _SQL[question], parameters)
