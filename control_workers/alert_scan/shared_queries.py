"""Runs one query for many accounts. If the data of one account causes an error, the other accounts are still read."""

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
"""Reads the given accounts and stores the results."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """An account and its weight: the largest part of a query's result that it may take."""

    account_id: int
    weight: int


class SharedQuery:
    """A query that reads many accounts at once.

    If the query fails, each of its accounts is read alone. If only some accounts fail alone, they are read separately
    for an hour: two such accounts per scan, in turns, with a short time limit.
    """

    def __init__(self, name: str, most: int, seconds: float) -> None:
        """`most`: the largest total weight of accounts that one query reads. `seconds`: the time limit for all
        queries of a scan."""
        self._name = name
        self._most = most
        self._seconds = seconds
        self._alone: dict[int, datetime] = {}
        """Accounts that are read separately, and until when. The account to read next comes first."""
        self._last: int = 0
        """The last account that was read together with others. If a scan runs out of time, the next scan continues
        after this account."""

    async def run(self, accounts: Collection[Weighed], query: Query, now: datetime) -> set[int]:
        """Read these accounts. Return the accounts that could not be read: nothing is known about them."""
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
            # Move the account to the end, so that the others come first.
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
    """Return the items by account, and the accounts with their number of items as weight."""
    found: dict[int, list[T]] = {}
    for item in items:
        found.setdefault(account_of(item), []).append(item)
    return found, [Weighed(account, len(some)) for account, some in found.items()]
