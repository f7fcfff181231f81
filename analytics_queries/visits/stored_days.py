"""Stores the figures of all visits of past days: they are computed once and then read fast."""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any
from urllib.parse import quote

from analytics_queries.telemetry.limited_sql import LIMITS, command_limited, query_limited
from analytics_queries.visits.period_figures import Figures
from analytics_queries.visits.report_request import Goals
from storage_backends.column_store.interface import ColumnStore
from storage_backends.sql_files import read_statements

_SQL = read_statements(__file__)

# Number of days that one statement computes. If a request runs out of time, the next request continues with the missing
# days.
_MOST_DAYS = 16
# ClickHouse receives the values of a statement in the URL, and accepts at most 128 KiB for each value.
_MOST_GOAL_BYTES = 100_000
# On a cluster, a replica may not have all rows of a newer run yet.
_SETTLED_NS = 600 * 1_000_000_000


async def stored_days(
    store: ColumnStore, site_id: int, goals: Goals, days: Sequence[date], runs: Mapping[date, int]
) -> Mapping[date, Figures]:
    """Return the figures of those days that have ended and have a run. Missing figures are computed and stored.

    On a cluster, a run only counts once all replicas have it. Returns nothing if the goals are too long to be stored.
    Raises `StorageUnavailable`.
    """
    newest = time.time_ns() - (_SETTLED_NS if getattr(store, "cluster", None) else 0)
    chosen = [day for day in days if day in runs and runs[day] < newest]
    if not chosen or len(quote(_write_goals(goals), safe="")) > _MOST_GOAL_BYTES:
        return {}
    found = await _read(store, site_id, goals, chosen, runs)
    missing = [day for day in chosen if day not in found]
    if missing:
        missing = await _find_over(store, site_id, goals, missing, runs)
    if not missing:
        return found
    for begin in range(0, len(missing), _MOST_DAYS):
        part = missing[begin : begin + _MOST_DAYS]
        parameters = _parameters(site_id, goals, part, runs)
        # Goals do not affect the stored events.
        rows = (await query_limited(store, _SQL["find_complete"] + LIMITS, parameters)).rows
        complete = {day for (day,) in rows}
        if without_events := [day for day in part if day not in complete]:
            events = _parameters(site_id, Goals(), without_events, runs)
            # Another process may do the same at the same time. Store the figures last, because they mark the events as
            # complete.
            await command_limited(store, _SQL["insert_events"], events)
        await command_limited(store, _SQL["insert_figures"], parameters)
    return await _read(store, site_id, goals, chosen, runs)


async def read_stored_conversions(
    store: ColumnStore, site_id: int, goals: Goals, days: Sequence[date], runs: Mapping[date, int]
) -> Sequence[Sequence[Any]]:
    """Return rows with the conversions of days that `stored_days` has returned. They have the form of the rows of
    `conversions.sql`. Raises `StorageUnavailable`."""
    parts = []
    if goals.events:
        parts.append(_SQL["read_event_goals"])
    if goals.paths:
        parts.append(_SQL["read_path_goals"])
    if not parts:
        return []
    sql = "\nUNION ALL\n".join(parts) + LIMITS
    return (await query_limited(store, sql, _parameters(site_id, goals, days, runs))).rows


async def _find_over(
    store: ColumnStore, site_id: int, goals: Goals, days: Sequence[date], runs: Mapping[date, int]
) -> list[date]:
    """Return the days that had ended when their runs were computed. The figures of other days cannot be stored."""
    sql = _SQL["find_over"] + LIMITS
    return [day for (day,) in (await query_limited(store, sql, _parameters(site_id, goals, days, runs))).rows]


async def _read(
    store: ColumnStore, site_id: int, goals: Goals, days: Sequence[date], runs: Mapping[date, int]
) -> Mapping[date, Figures]:
    rows = (
        await query_limited(store, _SQL["read_figures"] + LIMITS, _parameters(site_id, goals, days, runs))
    ).rows
    return {day: Figures(*(int(value) for value in row)) for day, *row in rows}


def _parameters(site_id: int, goals: Goals, days: Sequence[date], runs: Mapping[date, int]) -> dict[str, Any]:
    return {
        "site_id": site_id,
        "days": list(days),
        "runs": [runs[day] for day in days],
        "goals": _digest_goals(goals),
        "goal_events": list(goals.events),
        "goal_paths": list(goals.paths),
    }


def _digest_goals(goals: Goals) -> int:
    return int.from_bytes(hashlib.sha256(_write_goals(goals).encode()).digest()[:8])


def _write_goals(goals: Goals) -> str:
    return json.dumps([sorted(goals.events), sorted(goals.paths)])
