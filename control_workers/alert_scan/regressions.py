"""Finds resolved groups of exceptions that a newer release raises again."""

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import select

from analytics_queries.alerts.seen_exceptions import SeenGroup
from analytics_queries.telemetry.limited_sql import share_time
from control_domain.database.engine import Sessions
from control_domain.tables.accounts import Account
from control_domain.tables.exceptions import ExceptionStatus
from control_domain.tables.projects import Environment
from control_domain.telemetry.change_exception import read_decisions
from control_domain.telemetry.exceptions import find_group_regressions, format_group
from control_workers.alert_scan.conditions import Event, Scope
from control_workers.alert_scan.scopes import describe_sample, read_scopes
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.times import to_epoch_ms
from storage_backends.column_store.interface import ColumnStore, QueryRefused

logger = logging.getLogger(__name__)

_MAX_ENVIRONMENTS = 5
"""Maximum number of environments of an account whose groups are compared with releases in one scan. Each environment
takes one query."""
_MAX_WAITING = 1000
_SECONDS, _SECONDS_OF_ENVIRONMENT = 8.0, 2.0
_AT_ONCE = 500

Resolved = Mapping[tuple[int, str], datetime]
"""When each group was resolved, by the number of the environment and the name of the group."""
Waiting = Mapping[str, Mapping[str, SeenGroup]]
"""Groups, by the public ID of the environment and by the name of the group."""


@dataclass(frozen=True, slots=True)
class Regressions:
    """What one scan has found. All of it is written in one transaction."""

    events: Sequence[Event] = ()
    written: Resolved = field(default_factory=dict)
    """All regressions whose events are written once this scan is written."""
    waiting: Waiting = field(default_factory=dict)
    """Resolved groups that were seen again but are not yet compared with releases."""


class RegressionScan:
    """Compares resolved groups that were seen again with releases. Each scan compares some environments of each
    account."""

    def __init__(self, sessions: Sessions, store: ColumnStore) -> None:
        self._sessions = sessions
        self._store = store
        self._written: Resolved = {}
        self._waiting: Waiting = {}

    def keep(self, found: Regressions) -> None:
        """Remember the results after they were written."""
        self._written, self._waiting = found.written, found.waiting

    async def find(
        self, seen: Sequence[SeenGroup], scopes: Mapping[str, Scope], now: datetime
    ) -> Regressions:
        """Return those of the seen groups and of the waiting groups that are regressions. A regression that was
        reported before is left out, because its event would change nothing."""
        waiting = {name: dict(groups) for name, groups in self._waiting.items()}
        for each in seen:
            waiting.setdefault(each.environment, {})[format_group(each.group)] = each
        scopes = {**scopes, **await read_scopes(self._sessions, self._waiting.keys() - scopes.keys())}
        resolved = await self._read_resolved(
            [scopes[name].environment_id or 0 for name in waiting if name in scopes]
        )
        written = {key: at for key, at in self._written.items() if resolved.get(key, at) == at}
        due: dict[str, Mapping[str, SeenGroup]] = {}
        for environment, groups in waiting.items():
            number = scopes[environment].environment_id or 0 if environment in scopes else 0
            is_due = {
                name: each
                for name, each in groups.items()
                if (at := resolved.get((number, name))) is not None and written.get((number, name)) != at
            }
            if is_due:
                due[environment] = is_due
        regressed, later = await self._compare(due, scopes)
        events = []
        for (environment, name), at in regressed.items():
            scope = scopes[environment]
            key = (scope.environment_id or 0, name)
            written[key] = resolved[key]
            facts = {**describe_sample(due[environment][name]), "regressed_ms": to_epoch_ms(at)}
            events.append(Event(scope, "exception.regressed", name, "firing", facts, now))
        return Regressions(events, written, later)

    async def _compare(
        self, due: Waiting, scopes: Mapping[str, Scope]
    ) -> tuple[Mapping[tuple[str, str], datetime], Waiting]:
        """Return when each group regressed, by environment and name, and the groups that have to wait."""
        regressed: dict[tuple[str, str], datetime] = {}
        later: dict[str, Mapping[str, SeenGroup]] = {}
        failed: dict[str, Mapping[str, SeenGroup]] = {}
        turns, waiting = Counter[int](), Counter[int]()
        with share_time(_SECONDS):
            for environment, groups in due.items():
                account = scopes[environment].account_id
                turns[account] += 1
                is_later = turns[account] > _MAX_ENVIRONMENTS
                if not is_later:
                    try:
                        with share_time(_SECONDS_OF_ENVIRONMENT):
                            found = await self._read_regressed(scopes[environment], groups)
                        regressed.update({(environment, name): at for name, at in found.items()})
                        continue
                    except (StorageUnavailable, QueryRefused) as error:
                        logger.warning("regressions of an environment cannot be evaluated now: %s", error)
                waiting[account] += len(groups)
                # A group that does not wait is compared when it is seen again.
                if waiting[account] <= _MAX_WAITING:
                    (later if is_later else failed)[environment] = groups
        return regressed, {**later, **failed}

    async def _read_resolved(self, environments: Sequence[int]) -> Resolved:
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
