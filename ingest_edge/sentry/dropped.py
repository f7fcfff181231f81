"""Count dropped items of envelopes by environment, type and reason, for their owners and for the operator.

Owners see them as the metric `pharos.sentry.dropped_items` of the environment: every few seconds the counts become data
points, as if an OTLP sender had sent them.
"""

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import orjson

from ingest_edge.sentry.convert import DropReason
from pipeline_contracts import topics
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.identifiers import receipt_name
from pipeline_contracts.otlp.records import OtlpMeta, encode_otlp_meta
from storage_backends.end_task import end_task
from storage_backends.event_log.interface import EventLog
from storage_backends.key_directory.interface import KeyEntry

METRIC = "pharos.sentry.dropped_items"
_DESCRIPTION = "Items, spans and log records of Sentry SDKs that were accepted and not kept"
_DELTA = 1
_FLUSH_SECONDS = 10.0

_Owner = tuple[str, str, str]
"""The IDs of the account, the project and the environment."""
_Record = tuple[bytes, bytes, bytes]
"""Key, header and value."""
DropCounts = Mapping[tuple[str, DropReason], int]
"""Counts by type of item and reason."""


class DroppedItems:
    """Counts of dropped items since the last flush, and in total."""

    def __init__(self, log: EventLog, now_ms: Callable[[], int]) -> None:
        self._log = log
        self._now_ms = now_ms
        self._counts: dict[_Owner, tuple[int, Counter[tuple[str, DropReason]]]] = {}
        """Start of the counts that are in no record yet, in milliseconds since 1970."""
        self._records: dict[_Owner, _Record] = {}
        """Records that may not be in the log."""
        self.total: Counter[tuple[str, str]] = Counter()
        """Counts of this process by type of item and reason."""

    def count(self, key: KeyEntry, dropped: DropCounts) -> None:
        """Count items that are being dropped from an envelope with this key."""
        if dropped:
            owner = (key.account_id, key.project_id, key.environment_id)
            if owner not in self._counts:
                self._counts[owner] = self._now_ms(), Counter()
            self._counts[owner][1].update(dropped)
            self.total.update(dropped)

    async def flush(self) -> None:
        """Append the counts to the log. A record whose append failed or was cancelled is appended again, unchanged, by
        the next flush: it may be in the log, and consumers store one of its identity."""
        for owner in dict.fromkeys([*self._records, *self._counts]):
            if owner in self._records and not await self._append(owner):
                continue
            if owner in self._counts:
                since_ms, dropped = self._counts.pop(owner)
                self._records[owner] = _make_record(owner, dropped, since_ms, self._now_ms())
                await self._append(owner)

    async def _append(self, owner: _Owner) -> bool:
        """Append the owner's record, and forget the record once it is in the log. Return True if it is in the log."""
        try:
            await self._log.append(topics.METRICS, *self._records[owner])
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

        task = asyncio.create_task(flush_forever(), name="dropped items")
        try:
            yield
        finally:
            await end_task(task)
            await self.flush()


def _make_record(owner: _Owner, dropped: DropCounts, since_ms: int, now_ms: int) -> _Record:
    identity = f"sentry:dropped:{uuid.uuid4()}"
    meta = encode_otlp_meta(OtlpMeta(*owner, now_ms, len(dropped), batch_id=identity))
    name = receipt_name(owner[2], identity)
    return name.encode(), meta, _make_request(dropped, since_ms, now_ms)


def _make_request(dropped: DropCounts, since_ms: int, now_ms: int) -> bytes:
    """Return an OTLP request with one data point for each type and reason."""
    points = [
        {
            "startTimeUnixNano": since_ms * 1_000_000,
            "timeUnixNano": now_ms * 1_000_000,
            "asInt": items,
            "attributes": [
                {"key": "sentry.item_type", "value": {"stringValue": item_type}},
                {"key": "reason", "value": {"stringValue": reason}},
            ],
        }
        for (item_type, reason), items in sorted(dropped.items())
    ]
    metric = {
        "name": METRIC,
        "description": _DESCRIPTION,
        "unit": "{item}",
        "sum": {"aggregationTemporality": _DELTA, "isMonotonic": True, "dataPoints": points},
    }
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "pharos"}}]}
    return orjson.dumps(
        {"resourceMetrics": [{"resource": resource, "scopeMetrics": [{"metrics": [metric]}]}]}
    )
