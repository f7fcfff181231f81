"""Counts of what the edge drops are stored once, whatever happens to the append."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest

from consumers.chunk import Chunk
from consumers.transforms.otlp.topic import metrics_topic
from consumers.transforms.pageviews_topic import DROPPED, PageviewsTopic
from ingest_edge.collect.dropped import BOT, DroppedEvents
from ingest_edge.sentry.convert import DropReason
from ingest_edge.sentry.dropped import DroppedItems
from pipeline_contracts.collected import decode_collect_meta
from pipeline_contracts.credentials import CredentialKind
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.otlp.records import decode_otlp_meta
from pipeline_contracts.rate_limits import RateLimit
from pipeline_contracts.records import LogRecord
from storage_backends.column_store.interface import ColumnStore, QueryResult
from storage_backends.event_log.interface import EventLog
from storage_backends.key_directory.interface import KeyEntry

_SESSION: tuple[str, DropReason] = ("session", "not_kept")


class _Log:
    """Stores each record at once; then the append hangs, or its outcome is unknown."""

    def __init__(self) -> None:
        self.records: list[LogRecord] = []
        self.has_stored = asyncio.Event()
        self.hangs = False
        self.is_in_doubt = False

    async def append(self, topic: str, key: bytes, meta: bytes, value: bytes) -> None:
        self.records.append(LogRecord(len(self.records), key, meta, value))
        self.has_stored.set()
        if self.hangs:
            await asyncio.Event().wait()
        if self.is_in_doubt:
            raise StorageUnavailable("the brokers do not answer")


class _EmptyStore:
    async def query(self, sql: str, parameters: Any = None) -> QueryResult:
        return QueryResult([], [])


class _SentryItems:
    """Dropped items of Sentry's SDKs. Owners are environments."""

    def __init__(self, log: _Log) -> None:
        self.log = log
        self.dropped = DroppedItems(cast(EventLog, log), lambda: 1)

    def count(self, owner: int, number: int) -> None:
        limit = RateLimit(1, 1)
        key = KeyEntry(b"", CredentialKind.INGEST_KEY, "acc_1", "prj_1", str(owner), limit)
        self.dropped.count(key, {_SESSION: number})

    async def stored(self) -> dict[int, list[int]]:
        """Return the counts by owner, as the consumer stores them."""
        records = self.log.records
        rows = await metrics_topic().make_rows(
            Chunk("log", 0, len(records), records), cast(ColumnStore, _EmptyStore())
        )
        found: dict[int, list[int]] = {}
        for part in rows.tables["pharos.otel_metrics_sum"]:
            owner = int(decode_otlp_meta(records[part.offset].meta).environment_id)
            points = [msgspec.json.decode(line) for line in part.lines.splitlines()]
            found.setdefault(owner, []).extend(int(point["Value"]) for point in points)
        return found


class _CollectedEvents:
    """Dropped page views and events. Owners are sites."""

    def __init__(self, log: _Log) -> None:
        self.log = log
        self.dropped = DroppedEvents(cast(EventLog, log), lambda: 1)

    def count(self, owner: int, number: int) -> None:
        self.dropped.count(owner, BOT, number)

    async def stored(self) -> dict[int, list[int]]:
        """Return the counts by owner, as the consumer stores them."""
        records = self.log.records
        rows = await PageviewsTopic().make_rows(
            Chunk("log", 0, len(records), records), cast(ColumnStore, _EmptyStore())
        )
        found: dict[int, list[int]] = {}
        for part in rows.tables[DROPPED]:
            owner = decode_collect_meta(records[part.offset].meta).site_id
            lines = [msgspec.json.decode(line) for line in part.lines.splitlines()]
            found.setdefault(owner, []).extend(line["events"] for line in lines)
        return found


_Counts = _SentryItems | _CollectedEvents
_both = pytest.mark.parametrize("make", [_SentryItems, _CollectedEvents])


@_both
async def test_a_shutdown_during_an_append_loses_no_counts(make: Callable[[_Log], _Counts]) -> None:
    log = _Log()
    log.hangs = True
    counts = make(log)
    async with counts.dropped.flush_periodically(every=0.001):
        for owner in (1, 2, 3):
            counts.count(owner, 10 * owner)
        await log.has_stored.wait()
        counts.count(1, 7)
        log.hangs = False
    assert await counts.stored() == {1: [10, 7], 2: [20], 3: [30]}


@_both
async def test_an_append_with_an_unknown_outcome_is_counted_once(make: Callable[[_Log], _Counts]) -> None:
    """The same record is appended again, whatever is counted meanwhile."""
    log = _Log()
    log.is_in_doubt = True
    counts = make(log)
    counts.count(1, 5)
    await counts.dropped.flush()
    counts.count(1, 2)
    await counts.dropped.flush()
    log.is_in_doubt = False
    for _ in range(2):
        await counts.dropped.flush()
    assert len(log.records) == 4 and len({record.value for record in log.records}) == 2
    assert await counts.stored() == {1: [5, 2]}
