"""Groups of exceptions that are far more frequent than usual."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from analytics_queries.alerts.exception_spikes import FrequentGroup, frequent_groups
from control_domain.database.engine import Sessions
from control_domain.tables.exceptions import ExceptionStatus
from control_domain.telemetry.exceptions import format_group
from control_workers.alert_scan.conditions import Observed, Reading, Scope
from control_workers.alert_scan.exceptions import read_scopes
from control_workers.alert_scan.judge import Remembered
from control_workers.alert_scan.phases import Limits
from storage_backends.column_store.interface import ColumnStore

PREFIX = "spike "
LEAST = 20
"""A spike has at least so many exceptions in the window."""
TIMES_USUAL = 5.0
_WINDOW_MINUTES = 10
WINDOW = timedelta(minutes=_WINDOW_MINUTES)
_AT_ONCE = 500


async def read_spikes(
    sessions: Sessions, store: ColumnStore, states: Mapping[str, Remembered], now: datetime
) -> Reading:
    """Return the groups that are frequent now, and those that were. Ignored groups are left out.

    A new group has no usual rate: it has a message of its own. Raises `StorageUnavailable` and `QueryRefused`.
    """
    known = {key: state for key, state in states.items() if key.startswith(PREFIX)}
    numbers = {int(key.rpartition(" ")[2], 16) for key in known}
    frequent = await frequent_groups(store, now, _WINDOW_MINUTES, LEAST, numbers)
    scopes = await read_scopes(sessions, {each.environment for each in frequent})
    async with sessions() as session:
        ignored = await _read_ignored(session, [scope.environment_id or 0 for scope in scopes.values()])
    observed = {}
    for each in frequent:
        scope = scopes.get(each.environment)
        name = format_group(each.group)
        if scope is None or (scope.environment_id, name) in ignored:
            continue
        found = _observe(each, name, scope, now)
        if found is not None:
            observed[found.key] = found
    seen = {
        f"{PREFIX}{scopes[each.environment].environment_id} {format_group(each.group)}"
        for each in frequent
        if each.environment in scopes
    }
    for key, state in known.items():
        if key not in seen:
            # Not one exception in the window.
            limits = Limits(LEAST, LEAST / 2)
            observed[key] = Observed(key, state.scope, state.kind, state.subject, limits, 0.0)
    return Reading(PREFIX, list(observed.values()))


def _observe(found: FrequentGroup, name: str, scope: Scope, now: datetime) -> Observed | None:
    usual = found.usual(now, WINDOW)
    if usual is None:
        return None
    threshold = max(float(LEAST), TIMES_USUAL * usual)
    return Observed(
        f"{PREFIX}{scope.environment_id} {name}",
        scope,
        "exception.spike",
        f"{PREFIX}{name}",
        Limits(threshold, threshold / 2),
        float(found.recent),
        {
            "group": name,
            "environment": found.environment,
            "exception": found.kind,
            "message": found.message,
            "service": found.service,
            "usual": round(usual, 1),
            "window_seconds": _WINDOW_MINUTES * 60,
        },
    )


async def _read_ignored(session: AsyncSession, environments: Sequence[int]) -> set[tuple[int, str]]:
    found: set[tuple[int, str]] = set()
    for first in range(0, len(environments), _AT_ONCE):
        query = select(ExceptionStatus.environment_id, ExceptionStatus.group_id).where(
            ExceptionStatus.environment_id.in_(environments[first : first + _AT_ONCE]),
            ExceptionStatus.status == "ignored",
        )
        found |= {(environment, group) for environment, group in await session.execute(query)}
    return found
