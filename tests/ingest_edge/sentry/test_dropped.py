"""Counts of dropped items are stored once, even if an append fails or is cancelled."""

import asyncio
from typing import Any, cast

import msgspec

from consumers.chunk import Chunk
from consumers.transforms.otlp.topic import metrics_topic
from ingest_edge.sentry.convert import DropReason
from ingest_edge.sentry.dropped import DroppedItems
from pipeline_contracts.credentials import CredentialKind
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.otlp.records import decode_otlp_meta
from pipeline_contracts.rate_limits import RateLimit
from pipeline_contracts.records import LogRecord
from storage_backends.column_store.interface import ColumnStore, QueryResult
from storage_backends.event_log.interface import EventLog
from storage_backends.key_directory.interface import KeyEntry

SESSION: tuple[str, DropReason] = ("session", "not_kept")


class _Log:
    """Stores each record immediately; then the append hangs, or its outcome is unknown."""

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

    async def counts(self) -> dict[str, list[int]]:
        """Return the counts by environment, as the consumer stores them."""
        chunk = Chunk("log", 0, len(self.records), self.records)
        rows = await metrics_topic().make_rows(chunk, cast(ColumnStore, _NoReceipts()))
        found: dict[str, list[int]] = {}
        for part in rows.tables["pharos.otel_metrics_sum"]:
            environment = decode_otlp_meta(self.records[part.offset].meta).environment_id
            points = [msgspec.json.decode(line) for line in part.lines.splitlines()]
            found.setdefault(environment, []).extend(int(point["Value"]) for point in points)
        return found


class _NoReceipts:
    async def query(self, sql: str, parameters: Any = None) -> QueryResult:
        return QueryResult((), [])


def key(environment: str) -> KeyEntry:
    return KeyEntry(b"", CredentialKind.INGEST_KEY, "acc_1", "prj_1", environment, RateLimit(1, 1))


async def test_a_shutdown_during_an_append_loses_no_counts() -> None:
    log = _Log()
    log.hangs = True
    dropped = DroppedItems(cast(EventLog, log), lambda: 1)
    async with dropped.flush_periodically(every=0.001):
        for n in range(3):
            dropped.count(key(f"env_{n}"), {SESSION: 5 + n})
        await log.has_stored.wait()
        dropped.count(key("env_0"), {SESSION: 1})
        log.hangs = False
    assert await log.counts() == {"env_0": [5, 1], "env_1": [6], "env_2": [7]}


async def test_an_append_with_an_unknown_outcome_is_counted_once() -> None:
    """The same record is appended again, even if further items are counted meanwhile."""
    log = _Log()
    log.is_in_doubt = True
    dropped = DroppedItems(cast(EventLog, log), lambda: 1)
    dropped.count(key("env_0"), {SESSION: 5})
    await dropped.flush()
    dropped.count(key("env_0"), {SESSION: 2})
    await dropped.flush()
    log.is_in_doubt = False
    for _ in range(2):
        await dropped.flush()
    assert len({record.key for record in log.records}) == 2
    assert len({record.value for record in log.records}) == 2
    assert await log.counts() == {"env_0": [5, 2]}
