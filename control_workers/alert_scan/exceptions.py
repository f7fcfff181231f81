"""Finds new groups of exceptions since the last scan, and resolved groups that have returned (regressions)."""

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from sqlalchemy import func, select

from analytics_queries.alerts.seen_exceptions import (
    MAX_GROUPS,
    Interval,
    SeenGroup,
    busy_environments,
    find_new,
    seen_groups,
)
from control_domain.database.engine import Sessions
from control_domain.tables.notifications import AlertIncident
from control_domain.telemetry.exceptions import format_group
from control_workers.alert_scan.conditions import Event, Scope
from control_workers.alert_scan.regressions import Regressions, RegressionScan
from control_workers.alert_scan.scopes import choose_some, describe_sample, read_scopes
from control_workers.alert_scan.shared_queries import SharedQuery, Weighed, weigh
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.times import to_epoch_ms
from storage_backends.column_store.interface import ColumnStore, QueryRefused

logger = logging.getLogger(__name__)

# A row has the time at which its insert began, and becomes visible a moment later.
_MARGIN = timedelta(seconds=10)
_LOOK_BACK = timedelta(days=1)
_LEAST_INTERVAL = timedelta(seconds=30)
_MAX_FAILURES = 10
MAX_NEW = 50
"""Maximum number of groups of one environment that get an event of their own in one scan."""
MAX_OPEN = 1000
"""Maximum number of open incidents about new groups of one environment. Further groups are only counted, and the
count is reported once an hour."""
MAX_NEW_OF_ACCOUNT, MAX_OPEN_OF_ACCOUNT = 200, 5000
"""Maximum number of open incidents about new groups in all environments of an account."""
_MAX_COUNTS = 20
_COUNTED_EVERY = timedelta(hours=1)
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Found:
    """What one scan has found. All of it is written in one transaction."""

    events: Sequence[Event]
    through: datetime | None
    """The time up to which exceptions are evaluated after this scan. None if nothing was evaluated."""
    regressions: Regressions | None = None
    """The regressions that were found. None if no group was compared with releases."""
    more: Mapping[str, int] = field(default_factory=dict)
    """By environment, the number of groups that get no event of their own."""
    counted: Collection[str] = ()
    """Environments for which an event reports the number of these groups."""


class ExceptionScan:
    """Finds the exceptions that were stored since the last scan, by the column store's clock."""

    def __init__(self, sessions: Sessions, store: ColumnStore) -> None:
        self._sessions = sessions
        self._store = store
        # A query contains the names of environments and the numbers of groups, so their number must be limited.
        self._queries = SharedQuery("new exceptions", most=2500, seconds=15.0)
        self._regressions = RegressionScan(sessions, store)
        self._counted: dict[str, datetime] = {}
        """By environment, when the groups that are only counted were last reported."""
        self._uncounted: Counter[str] = Counter()
        self._seen_at: datetime | None = None
        self._longest = _LOOK_BACK
        """The length of the interval that one scan reads. It is shorter after a failure."""
        self._failures = 0

    async def read(self, through: datetime | None, store_now: datetime, now: datetime) -> Found:
        """Return the events since `through`, the time of the last scan. None means that this is the first scan: all
        stored exceptions then count as old. Call `keep` once the events are written."""
        # Before the first query, nothing is known about earlier exceptions.
        self._seen_at = self._seen_at or now
        until = store_now - _MARGIN
        if through is None or until <= through:
            return Found([], max(until, through or until))
        after = max(through, until - _LOOK_BACK)
        until = min(until, after + self._longest)
        interval = Interval(to_epoch_ms(after), to_epoch_ms(until))
        try:
            found = await self._read_interval(interval, now)
        except (StorageUnavailable, QueryRefused) as error:
            logger.warning("exceptions cannot be evaluated now: %s", error)
            return self._try_less(until, until - after)
        self._longest, self._failures = min(2 * self._longest, _LOOK_BACK), 0
        return replace(found, through=until)

    def keep(self, found: Found, now: datetime) -> None:
        """Remember the results after they were written."""
        if found.regressions is not None:
            self._regressions.keep(found.regressions)
        self._uncounted.update(found.more)
        self._counted = {name: at for name, at in self._counted.items() if now - at < _COUNTED_EVERY}
        for environment in found.counted:
            self._counted[environment] = now
            del self._uncounted[environment]

    def has_seen(self, since: datetime) -> bool:
        """Return True if an exception was stored after `since`."""
        return self._seen_at is None or self._seen_at >= since

    def _try_less(self, until: datetime, interval: timedelta) -> Found:
        """After a failure, make the next scan begin at the same time and read half of the interval. If an interval
        cannot be read for five minutes, skip it, so that it does not hold back later exceptions."""
        self._failures += 1
        if self._failures > _MAX_FAILURES and interval <= _LEAST_INTERVAL:
            logger.error("exceptions until %s are not evaluated because they cannot be read", until)
            self._failures = 0
            return Found([], until)
        self._longest = max(_LEAST_INTERVAL, interval / 2)
        return Found([], None)

    async def _read_interval(self, interval: Interval, now: datetime) -> Found:
        busy = await busy_environments(self._store, interval)
        scopes = await read_scopes(self._sessions, set(busy))
        if scopes:
            self._seen_at = now
        of_accounts, _ = weigh(scopes, lambda name: scopes[name].account_id)
        new: list[SeenGroup] = []
        known: list[SeenGroup] = []

        async def query(some: Sequence[int]) -> None:
            asked = {name: account for account in some for name in choose_some(of_accounts[account])}
            seen = await seen_groups(self._store, asked, interval)
            are_new = await find_new(self._store, seen, interval.after_ms)
            for each in seen:
                (new if each.key in are_new else known).append(each)

        failed = await self._queries.run(
            [
                Weighed(account, min(MAX_GROUPS, sum(busy[name] for name in names)))
                for account, names in of_accounts.items()
            ],
            query,
            now,
        )
        if failed and failed == of_accounts.keys():
            raise StorageUnavailable("the exceptions of no account can be read")
        found = await self._make_new_events(new, [*new, *known], scopes, now)
        regressions = await self._regressions.find(known, scopes, now)
        return replace(found, events=[*found.events, *regressions.events], regressions=regressions)

    async def _make_new_events(
        self, new: Sequence[SeenGroup], seen: Sequence[SeenGroup], scopes: Mapping[str, Scope], now: datetime
    ) -> Found:
        events: list[Event] = []
        of_environments: dict[str, list[SeenGroup]] = {}
        for each in new:
            of_environments.setdefault(each.environment, []).append(each)
        # Count all groups beyond the limit, although some of them may be known already.
        cut = {each.environment: each.of_environment for each in seen}
        for each in seen:
            cut[each.environment] -= 1
        rooms = await self._find_room({scopes[name] for name in of_environments})
        for name, groups in of_environments.items():
            scope = scopes[name]
            room = rooms.take(scope, len(groups))
            for each in groups[:room]:
                facts = {**describe_sample(each), "first_seen_ms": each.first_ns // 1_000_000}
                events.append(Event(scope, "exception.new", format_group(each.group), "firing", facts, now))
            cut[name] += len(groups) - room
        counted: list[str] = []
        counts = Counter[int]()
        for name, more in cut.items():
            reported_at = self._counted.get(name)
            total = self._uncounted[name] + more
            if total and (reported_at is None or now - reported_at >= _COUNTED_EVERY):
                counts[scopes[name].account_id] += 1
                if counts[scopes[name].account_id] <= _MAX_COUNTS:
                    facts = {"more": total, "environment": name}
                    events.append(Event(scopes[name], "exception.new", "more", "info", facts, now))
                    counted.append(name)
        return Found(events, None, more={name: more for name, more in cut.items() if more}, counted=counted)

    async def _find_room(self, scopes: Collection[Scope]) -> "_Room":
        """Return how many further incidents may open. The scan itself never closes incidents."""
        accounts = sorted({scope.account_id for scope in scopes})
        room = _Room()
        async with self._sessions() as session:
            for first in range(0, len(accounts), _AT_ONCE):
                query = (
                    select(AlertIncident.account_id, AlertIncident.environment_id, func.count())
                    .where(
                        AlertIncident.account_id.in_(accounts[first : first + _AT_ONCE]),
                        AlertIncident.open_key.is_not(None),
                        AlertIncident.kind == "exception.new",
                    )
                    .group_by(AlertIncident.account_id, AlertIncident.environment_id)
                )
                for account, environment, count in await session.execute(query):
                    room.opened[environment or 0] = count
                    room.opened_of_accounts[account] += count
        return room


@dataclass(slots=True)
class _Room:
    """The number of incidents that may still open, computed from the open incidents of each environment and
    account."""

    opened: Counter[int] = field(default_factory=Counter)
    opened_of_accounts: Counter[int] = field(default_factory=Counter)
    taken: Counter[int] = field(default_factory=Counter)

    def take(self, scope: Scope, count: int) -> int:
        """Return how many of `count` new incidents of the environment may open. Count these as open."""
        account = scope.account_id
        limits = (
            count,
            MAX_NEW,
            MAX_OPEN - self.opened[scope.environment_id or 0],
            MAX_NEW_OF_ACCOUNT - self.taken[account],
            MAX_OPEN_OF_ACCOUNT - self.opened_of_accounts[account] - self.taken[account],
        )
        room = max(0, min(limits))
        self.taken[account] += room
        return room
