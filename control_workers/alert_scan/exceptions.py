"""New groups of exceptions, and regressions of resolved ones, since the last scan."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select

from analytics_queries.alerts.seen_exceptions import SeenGroup, find_new, seen_since
from control_domain.database.engine import Sessions
from control_domain.tables.accounts import Account
from control_domain.tables.exceptions import ExceptionStatus
from control_domain.tables.projects import Environment, Project
from control_domain.telemetry.change_exception import read_decisions
from control_domain.telemetry.exceptions import find_group_regressions, format_group
from control_workers.alert_scan.conditions import Event, Scope
from pipeline_contracts.times import to_epoch_ms
from storage_backends.column_store.interface import ColumnStore

# An insert has the time at which it began, and takes a moment.
_MARGIN = timedelta(seconds=10)
_LOOK_BACK = timedelta(days=1)
_MAX_NEW = 50
_AT_ONCE = 500


class ExceptionScan:
    """Finds what happened since the last scan, by the column store's clock."""

    def __init__(self, sessions: Sessions, store: ColumnStore) -> None:
        self._sessions = sessions
        self._store = store
        self._regressed: dict[tuple[int, str], datetime] = {}
        """When the groups were resolved whose regressions are written. A repeated event would change nothing."""
        self._seen_at: datetime | None = None

    async def read_events(
        self, through: datetime | None, store_now: datetime, now: datetime
    ) -> tuple[Sequence[Event], datetime]:
        """Return the events, and the time through which exceptions are evaluated then. `through` is the time of the
        last scan; None: there was none, and all that is stored is old.

        Raises `StorageUnavailable` and `QueryRefused`.
        """
        # At first nobody knows.
        self._seen_at = self._seen_at or now
        until = store_now - _MARGIN
        if through is None or until <= through:
            return [], max(until, through or until)
        after_ms = to_epoch_ms(max(through, until - _LOOK_BACK))
        seen = await seen_since(self._store, after_ms, to_epoch_ms(until))
        if seen:
            self._seen_at = now
        new = await find_new(self._store, seen, after_ms)
        scopes = await read_scopes(self._sessions, {each.environment for each in seen})
        events = _make_new_events([each for each in seen if each.key in new], scopes, now)
        events += await self._find_regressions([each for each in seen if each.key not in new], scopes, now)
        return events, until

    def has_seen(self, since: datetime) -> bool:
        """True unless no exception was stored since then."""
        return self._seen_at is None or self._seen_at >= since

    async def _find_regressions(
        self, seen: Sequence[SeenGroup], scopes: Mapping[str, Scope], now: datetime
    ) -> list[Event]:
        resolved = await self._read_resolved(
            [scope.environment_id for scope in scopes.values() if scope.environment_id is not None]
        )
        self._regressed = {key: at for key, at in self._regressed.items() if resolved.get(key, at) == at}
        events = []
        for environment, scope in scopes.items():
            groups = {
                name: each
                for each in seen
                if each.environment == environment
                and (key := (scope.environment_id or 0, name := format_group(each.group))) in resolved
                and self._regressed.get(key) != resolved[key]
            }
            if not groups:
                continue
            for name, at in (await self._read_regressed(scope, groups)).items():
                self._regressed[scope.environment_id or 0, name] = resolved[scope.environment_id or 0, name]
                facts = {**describe_sample(groups[name]), "regressed_ms": to_epoch_ms(at)}
                events.append(Event(scope, "exception.regressed", name, "firing", facts, now))
        return events

    async def _read_resolved(self, environments: Sequence[int]) -> Mapping[tuple[int, str], datetime]:
        found = {}
        async with self._sessions() as session:
            for first in range(0, len(environments), _AT_ONCE):
                query = select(
                    ExceptionStatus.environment_id, ExceptionStatus.group_id, ExceptionStatus.resolved_at
                ).where(
                    ExceptionStatus.environment_id.in_(environments[first : first + _AT_ONCE]),
                    ExceptionStatus.status == "resolved",
                )
                for environment, group, resolved_at in await session.execute(query):
                    if resolved_at is not None:
                        found[environment, group] = resolved_at
        return found

    async def _read_regressed(self, scope: Scope, groups: Collection[str]) -> Mapping[str, datetime]:
        async with self._sessions() as session:
            account = await session.get(Account, scope.account_id)
            environment = await session.get(Environment, scope.environment_id)
            if account is None or environment is None:
                return {}
            decisions = await read_decisions(session, account, environment)
        return await find_group_regressions(self._store, decisions, groups)


async def read_scopes(sessions: Sessions, environments: Collection[str]) -> Mapping[str, Scope]:
    """Return the scopes of environments by their public IDs; removed ones are left out."""
    names, found = sorted(environments), {}
    async with sessions() as session:
        for first in range(0, len(names), _AT_ONCE):
            query = (
                select(Environment.public_id, Project.account_id, Project.id, Environment.id)
                .join(Project, Project.id == Environment.project_id)
                .where(Environment.public_id.in_(names[first : first + _AT_ONCE]))
            )
            for name, *scope in await session.execute(query):
                found[name] = Scope(*scope)
    return found


def _make_new_events(new: Sequence[SeenGroup], scopes: Mapping[str, Scope], now: datetime) -> list[Event]:
    events: list[Event] = []
    counts: dict[str, int] = {}
    for each in new:
        scope = scopes.get(each.environment)
        if scope is None:
            continue
        counts[each.environment] = counts.get(each.environment, 0) + 1
        if counts[each.environment] <= _MAX_NEW:
            facts = {**describe_sample(each), "first_seen_ms": each.first_ns // 1_000_000}
            events.append(Event(scope, "exception.new", format_group(each.group), "firing", facts, now))
    for environment, count in counts.items():
        if count > _MAX_NEW:
            facts = {"more": count - _MAX_NEW, "environment": environment}
            events.append(Event(scopes[environment], "exception.new", "more", "info", facts, now))
    return events


def describe_sample(seen: SeenGroup) -> dict[str, Any]:
    """Return the facts of one exception of a group."""
    return {
        "group": format_group(seen.group),
        "environment": seen.environment,
        "exception": seen.kind,
        "message": seen.message,
        "frame": seen.frame,
        "service": seen.service,
        "count": seen.exceptions,
    }
