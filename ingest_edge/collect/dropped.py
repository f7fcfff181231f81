"""Counts what is dropped, by site and reason, and tells the log now and then: a flood of bots costs next to nothing."""

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
"""The event is stored, its revenue is not: it was no amount with a currency."""

_TELL_SECONDS = 10.0


class DroppedEvents:
    """What was dropped since it was told last."""

    def __init__(self, log: EventLog, now_ms: Callable[[], int]) -> None:
        self._log = log
        self._now_ms = now_ms
        self._counts: dict[int, dict[str, int]] = {}

    def count(self, site_id: int, reason: str, events: int) -> None:
        """So many events of the site were dropped now."""
        of_site = self._counts.setdefault(site_id, {})
        of_site[reason] = of_site.get(reason, 0) + events

    async def tell(self) -> None:
        """Append what has been counted; what cannot be written is told the next time."""
        counts, self._counts = self._counts, {}
        for site_id, of_site in counts.items():
            meta = encode_collected(CollectMeta(site_id, self._now_ms(), len(of_site), "dropped"))
            try:
                await self._log.append(
                    topics.PAGEVIEWS, str(site_id).encode(), meta, encode_collected(Dropped(of_site))
                )
            except StorageUnavailable:
                for reason, events in of_site.items():
                    self.count(site_id, reason, events)

    @asynccontextmanager
    async def telling(self, every: float = _TELL_SECONDS) -> AsyncIterator[None]:
        """Tells the log every few seconds, and at the end."""

        async def keep_telling() -> None:
            while True:
                await asyncio.sleep(every)
                await self.tell()

        task = asyncio.create_task(keep_telling(), name="dropped events")
        try:
            yield
        finally:
            await end_task(task)
            await self.tell()
