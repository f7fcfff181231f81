"""Finds groups of exceptions that are far more frequent than usual."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from analytics_queries.alerts.exception_spikes import FrequentGroup, busy_environments, frequent_groups
from control_domain.database.engine import Sessions
from control_domain.tables.exceptions import ExceptionStatus
from control_domain.telemetry.exceptions import format_group
from control_workers.alert_scan.conditions import Observed, Reading, Scope
from control_workers.alert_scan.judge import Remembered
from control_workers.alert_scan.phases import Limits
from control_workers.alert_scan.scopes import MAX_ENVIRONMENTS, choose_some, read_scopes
from control_workers.alert_scan.shared_queries import SharedQuery, Weighed, weigh
from storage_backends.column_store.interface import ColumnStore

PREFIX = "spike "
LEAST = 20
"""Minimum number of exceptions in the window. Fewer exceptions are no spike."""
TIMES_USUAL = 5.0
MAX_SPIKES = 50
"""Maximum number of spikes of one account at the same time."""
_WINDOW_MINUTES = 10
WINDOW = timedelta(minutes=_WINDOW_MINUTES)
_AT_ONCE = 500


class SpikeScan:
    """Finds groups of exceptions that are frequent now, for each account in turn."""

    def __init__(self, sessions: Sessions, store: ColumnStore) -> None:
        self._sessions = sessions
        self._store = store
        # A query contains the numbers of known groups and the names of environments, so their number must be
        # limited.
        self._queries = SharedQuery("spikes of exceptions", most=2500, seconds=8.0)

    async def read(self, states: Mapping[str, Remembered], now: datetime) -> Reading:
        """Return the groups that are frequent now or were at the last scan. Ignored groups are left out.

        A new group has no usual rate, so it is no spike. Other events report new groups. Raises
        `StorageUnavailable` and `QueryRefused`.
        """
        known = {key: state for key, state in states.items() if key.startswith(PREFIX)}
        # If an environment has fewer exceptions than that, each known spike in it has recovered.
        busy = await busy_environments(self._store, now, _WINDOW_MINUTES, LEAST // 2)
        scopes = await read_scopes(self._sessions, set(busy))
        of_accounts, accounts = weigh(scopes, lambda name: scopes[name].account_id)
        known_of, _ = weigh(known, lambda key: known[key].scope.account_id)
        frequent: list[FrequentGroup] = []
        read: set[str] = set()

        async def query(some: Sequence[int]) -> None:
            named = [_group_of(key) for account in some for key in known_of.get(account, ())]
            asked = {name: account for account in some for name in choose_some(of_accounts[account])}
            frequent.extend(await frequent_groups(self._store, asked, now, _WINDOW_MINUTES, LEAST, named))
            read.update(asked)

        await self._queries.run(
            [Weighed(each.account_id, min(each.weight, MAX_ENVIRONMENTS) + MAX_SPIKES) for each in accounts],
            query,
            now,
        )
        async with self._sessions() as session:
            ignored = await _read_ignored(
                session, {scopes[each.environment].environment_id or 0 for each in frequent}
            )
        unread = {scope.environment_id for name, scope in scopes.items() if name not in read}
        return Reading(PREFIX, _observe_all(frequent, scopes, ignored, known, unread, now))


def _group_of(key: str) -> int:
    return int(key.rpartition(" ")[2], 16)


def _observe_all(
    frequent: Sequence[FrequentGroup],
    scopes: Mapping[str, Scope],
    ignored: Collection[tuple[int, str]],
    known: Mapping[str, Remembered],
    unread: Collection[int | None],
    now: datetime,
) -> Sequence[Observed]:
    observed: dict[str, Observed] = {}
    seen = set()
    room = Counter({scope.account_id: MAX_SPIKES for scope in scopes.values()})
    room.subtract(state.scope.account_id for state in known.values())
    for each in sorted(frequent, key=lambda group: -group.recent):
        scope, name = scopes[each.environment], format_group(each.group)
        key = f"{PREFIX}{scope.environment_id} {name}"
        seen.add(key)
        if (scope.environment_id, name) in ignored:
            continue
        found = _observe(each, name, scope, now)
        if found is None:
            continue
        if key not in known and found.limits.is_beyond(float(each.recent)):
            room[scope.account_id] -= 1
            if room[scope.account_id] < 0:
                continue
        observed[key] = found
    for key, state in known.items():
        if key not in seen:
            # The group has no exceptions in the window, unless its environment could not be read.
            value = None if state.scope.environment_id in unread else 0.0
            limits = Limits(LEAST, LEAST / 2)
            observed[key] = Observed(key, state.scope, state.kind, state.subject, limits, value)
    return list(observed.values())


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


async def _read_ignored(session: AsyncSession, of: Collection[int]) -> set[tuple[int, str]]:
    found: set[tuple[int, str]] = set()
    environments = sorted(of)
    for first in range(0, len(environments), _AT_ONCE):
        query = select(ExceptionStatus.environment_id, ExceptionStatus.group_id).where(
            ExceptionStatus.environment_id.in_(environments[first : first + _AT_ONCE]),
            ExceptionStatus.status == "ignored",
        )
        found |= {(environment, group) for environment, group in await session.execute(query)}
    return found
