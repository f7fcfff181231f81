"""Count dropped events by site and reason."""

import uuid
from collections.abc import Callable, Mapping
from typing import Final

from ingest_edge.drop_counts import CountRecord, DropCounts
from pipeline_contracts import topics
from pipeline_contracts.collected import CollectMeta, Dropped, encode_collected
from storage_backends.event_log.interface import EventLog

BOT: Final = "bot"
OPTED_OUT: Final = "opted_out"
PREFETCH: Final = "prefetch"
REVENUE_IGNORED: Final = "revenue_ignored"
"""The event is stored without its revenue, which was no amount with a currency."""


class DroppedEvents(DropCounts[int, str]):
    """Counts of dropped events since the last flush. The owners are sites."""

    def __init__(self, log: EventLog, now_ms: Callable[[], int]) -> None:
        super().__init__(log, topics.PAGEVIEWS, now_ms, _make_record)

    def count(self, site_id: int, reason: str, events: int) -> None:
        """Count events of the site that are dropped now."""
        self.add(site_id, {reason: events})


def _make_record(site_id: int, dropped: Mapping[str, int], _since_ms: int, now_ms: int) -> CountRecord:
    meta = encode_collected(CollectMeta(site_id, now_ms, len(dropped), "dropped"))
    value = encode_collected(Dropped(dict(dropped), uuid.uuid4().bytes))
    return CountRecord(str(site_id).encode(), meta, value)
