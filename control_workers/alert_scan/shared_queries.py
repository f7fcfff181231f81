"""One query for many accounts, such that the data of one account cannot keep the others from being evaluated."""

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic
from typing import TypeVar

from analytics_queries.telemetry.limited_sql import share_time
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.column_store.interface import QueryRefused

T = TypeVar("T")

logger = logging.getLogger(__name__)

_ALONE_SECONDS = 3.0
_ALONE_FOR = timedelta(hours=1)
_MAX_ALONE = 2

Query = Callable[[Sequence[int]], Awaitable[None]]
"""Reads some accounts, and keeps what it found."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """An account, and how much of a result it may be."""

    account_id: int
    weight: int


class SharedQuery:
    """A query that reads many accounts at once.

    If it fails, each of its accounts is read alone. An account that fails alone, while others do not, is read apart
    from them for an hour: two such accounts a scan, in turns, with little time.
    """

    def __init__(self, name: str, most: int, seconds: float) -> None:
        """`most`: the weight that is read at once. `seconds`: how long all queries of a scan may take."""
        self._name = name
        self._most = most
        self._seconds = seconds
        self._alone: dict[int, datetime] = {}
        """Until when accounts are read apart from the others, the next one first."""
        self._last: int = 0
        """The last account that was read together with others: a scan without enough time goes on after it."""

    async def run(self, accounts: Collection[Weighed], query: Query, now: datetime) -> set[int]:
        """Read these accounts; return those that could not be read: nothing is known of them."""
        weights = {each.account_id: each.weight for each in accounts}
        self._alone = {account: until for account, until in self._alone.items() if until > now}
        end = monotonic() + self._seconds
        failed: set[int] = set()
        succeeded = False
        for pack in self._make_packs(weights):
            unread = await self._read_pack(pack, query, end)
            failed |= unread
            succeeded = succeeded or len(unread) < len(pack)
            if monotonic() < end:
                self._last = pack[-1]
        if succeeded and monotonic() < end:
            self._alone.update(dict.fromkeys(failed, now + _ALONE_FOR))
        failed |= await self._read_alone(set(weights) - failed, query, end)
        if failed:
            logger.warning("%s of %d accounts cannot be evaluated now", self._name, len(failed))
        return failed

    def _make_packs(self, weights: Mapping[int, int]) -> Sequence[Sequence[int]]:
        accounts = sorted(set(weights) - set(self._alone))
        later = [account for account in accounts if account > self._last]
        packs: list[list[int]] = []
        size = 0
        for account in [*later, *(each for each in accounts if each <= self._last)]:
            size += weights[account]
            if not packs or size > self._most:
                packs.append([])
                size = weights[account]
            packs[-1].append(account)
        return packs

    async def _read_pack(self, pack: Sequence[int], query: Query, end: float) -> set[int]:
        if await self._try(pack, query, end - monotonic()):
            return set()
        if len(pack) == 1:
            return set(pack)
        failed = set()
        for account in pack:
            if not await self._try([account], query, min(_ALONE_SECONDS, end - monotonic())):
                failed.add(account)
        return failed

    async def _read_alone(self, accounts: Collection[int], query: Query, end: float) -> set[int]:
        apart = [account for account in self._alone if account in accounts]
        failed = set(apart[_MAX_ALONE:])
        for account in apart[:_MAX_ALONE]:
            # To the end of the row.
            self._alone[account] = self._alone.pop(account)
            if not await self._try([account], query, min(_ALONE_SECONDS, end - monotonic())):
                failed.add(account)
        return failed

    async def _try(self, accounts: Sequence[int], query: Query, seconds: float) -> bool:
        try:
            with share_time(seconds):
                await query(accounts)
        except (StorageUnavailable, QueryRefused) as error:
            logger.warning("%s cannot be evaluated together: %s", self._name, error)
            return False
        return True


def weigh(items: Iterable[T], account_of: Callable[[T], int]) -> tuple[Mapping[int, list[T]], list[Weighed]]:
    """Return the items by account, and the accounts with their numbers of items."""
    found: dict[int, list[T]] = {}
    for item in items:
        found.setdefault(account_of(item), []).append(item)
    return found, [Weighed(account, len(some)) for account, some in found.items()]
