"""Counts of what the edge drops, by owner and reason, which are appended to the log every few seconds.

A flood of things to drop therefore costs next to nothing.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import asynccontextmanager
from typing import Generic, NamedTuple, TypeVar

from pipeline_contracts.errors import StorageUnavailable
from storage_backends.end_task import end_task
from storage_backends.event_log.interface import EventLog

_FLUSH_SECONDS = 10.0
Owner = TypeVar("Owner", bound=Hashable)
Reason = TypeVar("Reason", bound=Hashable)


class CountRecord(NamedTuple):
    """A record for the log, with an identity of which consumers store one record."""

    key: bytes
    meta: bytes
    value: bytes


class DropCounts(Generic[Owner, Reason]):
    """Counts since the last flush.

    `make_record` returns the record of an owner's counts between two times (milliseconds since 1970).
    """

    def __init__(
        self,
        log: EventLog,
        topic: str,
        now_ms: Callable[[], int],
        make_record: Callable[[Owner, Mapping[Reason, int], int, int], CountRecord],
    ) -> None:
        self._log = log
        self._topic = topic
        self._now_ms = now_ms
        self._make_record = make_record
        self._counts: dict[Owner, tuple[int, Counter[Reason]]] = {}
        """Counts since this time, which are in no record."""
        self._records: dict[Owner, CountRecord] = {}
        """Records that are not known to be in the log."""

    def add(self, owner: Owner, dropped: Mapping[Reason, int]) -> None:
        """Add numbers of what is dropped now."""
        if owner not in self._counts:
            self._counts[owner] = self._now_ms(), Counter()
        self._counts[owner][1].update(dropped)

    async def flush(self) -> None:
        """Append the counts to the log. A record whose append failed or was cancelled is appended again, unchanged, by
        the next flush: it may be in the log."""
        for owner in dict.fromkeys([*self._records, *self._counts]):
            if owner in self._records and not await self._append(owner):
                continue
            if owner in self._counts:
                since_ms, dropped = self._counts.pop(owner)
                self._records[owner] = self._make_record(owner, dropped, since_ms, self._now_ms())
                await self._append(owner)

    async def _append(self, owner: Owner) -> bool:
        """Append the record of this account or site to the log, then forget it. Return False if the log is away."""
        try:
            await self._log.append(self._topic, *self._records[owner])
        except StorageUnavailable:
            return False
        del self._records[owner]
        return True

    @asynccontextmanager
    async def flush_periodically(self, every: float = _FLUSH_SECONDS) -> AsyncIterator[None]:
        """Flush every few seconds, and on exit."""

        async def flush_forever() -> None:
            while True:
                await asyncio.sleep(every)
                await self.flush()

        task = asyncio.create_task(flush_forever(), name=f"drop counts in {self._topic}")
        try:
            yield
        finally:
            await end_task(task)
            await self.flush()
