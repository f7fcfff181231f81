"""How many log records of each severity are there in each step of a time range?"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import NamedTuple

from analytics_queries.telemetry.direct_rollups import Rollup, Source, query_sources
from analytics_queries.telemetry.logs import LogFilter
from analytics_queries.telemetry.metric_series import MAX_STEPS
from analytics_queries.telemetry.request_rollups import RolledUpRange, roll_up
from analytics_queries.telemetry.time_range import TimeRange
from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_statements

_SQL = read_statements(__file__)
_SEVERITIES = 256
_ROLLUPS = {
    "record": Rollup("otel_logs", "records_by_minute"),
    "event": Rollup("telemetry_events", "requests_by_minute"),
}


class CountedRecords(NamedTuple):
    """Number of log records of one severity in one step."""

    step: int
    """The number of the step: it counts steps of this length since 1970."""
    severity_number: int
    records: int


async def log_histogram(
    store: ColumnStore, environment_id: str, within: TimeRange, filters: LogFilter, step_s: int
) -> Sequence[CountedRecords]:
    """Return the number of records by step and severity number, in ascending order. Steps and severities without
    records are left out.

    The rollups by minute contain neither texts nor traces. If a filter needs these, all records of the range are
    read. Raises `StorageUnavailable`.
    """
    rolled_up = _split(within, filters, step_s)
    sources = [
        Source(_SQL[f"{signal}_{unit}"], rollup if unit == "minutes" else None)
        for signal, rollup in _ROLLUPS.items()
        for unit in rolled_up.sources
    ]
    parameters = {
        "environment": environment_id,
        **rolled_up.parameters,
        **asdict(filters),
        "words": list(filters.words),
        "step_s": step_s,
        "limit": (MAX_STEPS + 2) * _SEVERITIES,
    }
    rows = (await query_sources(store, sources, _SQL["histogram"], parameters)).rows
    return [CountedRecords(*row) for row in rows]


def _split(within: TimeRange, filters: LogFilter, step_s: int) -> RolledUpRange:
    if filters.words or filters.trace:
        return roll_up(within, 1)
    minutes = roll_up(within, step_s)
    return RolledUpRange(within, (minutes.minutes[1], minutes.minutes[1]), minutes.minutes)
