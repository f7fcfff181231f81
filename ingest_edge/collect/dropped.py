"""Count dropped events by site and reason, and append the counts to the log every few seconds.

A flood of bots therefore appends few records to the log.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from pipeline_contracts import topics
from pipeline_contracts.collected import CollectMeta, Dropped, encode_collected
from pipeline_contracts.errors import StorageUnavailable
from storage_backends.end_task import end_task
from storage_backends.event_log.interface import EventLog

logger = logging.getLogger(__name__)

BOT: Final = "bot"
OPTED_OUT: Final = "opted_out"
PREFETCH: Final = "prefetch"
REVENUE_IGNORED: Final = "revenue_ignored"
"""The event is stored without its revenue, which was no amount with a currency."""

_FLUSH_SECONDS = 10.0


class DroppedEvents:
    """Counts of dropped events since the last flush."""

    def __init__(self, log: EventLog, now_ms: Callable[[], int]) -> None:
        self._log = log
        self._now_ms = now_ms
        self._counts: dict[int, dict[str, int]] = {}

    def count(self, site_id: int, reason: str, events: int) -> None:
        """Count events of the site that are being dropped."""
        site_counts = self._counts.setdefault(site_id, {})
        site_counts[reason] = site_counts.get(reason, 0) + events

    async def flush(self) -> None:
        """Append the counts to the log. Counts that cannot be written remain for the next flush."""
        counts, self._counts = self._counts, {}
        for site_id, site_counts in counts.items():
            meta = encode_collected(CollectMeta(site_id, self._now_ms(), len(site_counts), "dropped"))
            try:
                await self._log.append(
                    topics.PAGEVIEWS, str(site_id).encode(), meta, encode_collected(Dropped(site_counts))
                )
            except StorageUnavailable:
                for reason, events in site_counts.items():
                    self.count(site_id, reason, events)

    @asynccontextmanager
    async def flush_periodically(self, every: float = _FLUSH_SECONDS) -> AsyncIterator[None]:
        """Flush every few seconds, and on exit."""

        async def flush_forever() -> None:
            while True:
                await asyncio.sleep(every)
                await self.flush()

        task = asyncio.create_task(flush_forever(), name="dropped events")
        try:
            yield
        finally:
            await end_task(task)
            await self.flush()
