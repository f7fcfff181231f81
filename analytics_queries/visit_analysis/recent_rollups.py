"""Checks the rollups of a site once for all requests that a page sends at the same time."""

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from analytics_queries.visits.refresh_rollups import refresh_rollups
from storage_backends.column_store.interface import ColumnStore

_FRESH_SECONDS = 5.0
_MOST_SITES = 1000


@dataclass(frozen=True, slots=True)
class CheckedRollups:
    """The current run of each day. Together, the runs contain all events before `now`."""

    runs: Mapping[date, int]
    now: datetime


@dataclass(frozen=True, slots=True)
class _Remembered:
    days: frozenset[date]
    rollups: CheckedRollups
    until: float


class RecentRollups:
    """Remembers for 5 s which rollups of a site are current."""

    def __init__(self) -> None:
        self._remembered: OrderedDict[tuple[int, str], _Remembered] = OrderedDict()

    async def check(
        self, store: ColumnStore, site_id: int, timezone: str, days: Sequence[date], now: datetime
    ) -> CheckedRollups:
        """Return the current runs of `days`. Stale rollups are refreshed first. Raises `StorageUnavailable`."""
        key = (site_id, timezone)
        known = self._remembered.get(key)
        if known is not None and time.monotonic() < known.until and known.days.issuperset(days):
            return known.rollups
        rollups = CheckedRollups(await refresh_rollups(store, site_id, timezone, days, now), now)
        self._remembered[key] = _Remembered(frozenset(days), rollups, time.monotonic() + _FRESH_SECONDS)
        self._remembered.move_to_end(key)
        while len(self._remembered) > _MOST_SITES:
            self._remembered.popitem(last=False)
        return rollups
