"""What collected page views and events become: rows with their visits, each event once."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter

import msgspec

from analytics_queries.visits.stored_events import stored_events
from analytics_queries.visits.stored_visits import stored_visits
from consumers.chunk import Chunk, ChunkRows, DeadRecord, RowsOnly
from consumers.transforms.pageview_rows import dropped_rows, id_row, pageview_row, rows_of
from consumers.transforms.weight import month_of_receipt, weigh
from consumers.visits import MAX_PAUSE_MS, Key, Visit, Visits
from pipeline_contracts import topics
from pipeline_contracts.collected import (
    Collected,
    CollectedEvent,
    CollectMeta,
    decode_collect_meta,
    decode_collected,
    decode_dropped,
)
from pipeline_contracts.records import LogRecord
from storage_backends.column_store.interface import ColumnStore

PAGEVIEWS = "pharos.pageviews"
IDS = "pharos.pageview_ids"
DROPPED = "pharos.dropped_pageviews"

# What comes again within this time is the same event.
_REPEAT_MS = 48 * 3_600_000
# Visits whose last event is no older than that, by the clock of receipt, are kept in memory; older ones are asked for.
_KEEP_MS = 2 * 3_600_000
_SWEEP_MS = 10 * 60_000


@dataclass(slots=True)
class _Partition:
    """What is kept of one partition between its chunks."""

    start: int
    end: int
    horizon_ms: int
    """Every visit with a later event is known."""
    visits: Visits = field(default_factory=Visits)


@dataclass(slots=True)
class _Batch:
    record: LogRecord
    meta: CollectMeta
    collected: Collected


class PageviewsTopic(RowsOnly):
    """The transform of `topics.PAGEVIEWS`. A site's events are in one partition, in their order of arrival."""

    topic = topics.PAGEVIEWS

    def __init__(self) -> None:
        self._partitions: dict[str, _Partition] = {}

    def weight(self, record: LogRecord) -> tuple[int, int]:
        return weigh(record, decode_collect_meta, attrgetter("events"), month_of_receipt)

    async def make_rows(self, chunk: Chunk, store: ColumnStore) -> ChunkRows:
        result = ChunkRows()
        batches = _read(chunk, result)
        if not batches:
            return result
        seen = await _seen(chunk, batches, store)
        visits = (await self._begin(chunk, batches, store)).visits
        await self._look_up_old(chunk, batches, store)
        rows, ids = result.tables.setdefault(PAGEVIEWS, []), result.tables.setdefault(IDS, [])
        for batch in batches:
            kept = [event for event in batch.collected.events if _is_new(batch.meta, event, seen)]
            result.duplicates += len(batch.collected.events) - len(kept)
            if kept:
                placed = [
                    pageview_row(
                        batch.meta,
                        batch.collected.country,
                        event,
                        _place(visits, batch.meta, event),
                        chunk.log,
                        batch.record.offset,
                    )
                    for event in kept
                ]
                rows.append(rows_of(batch.record.offset, placed))
                ids.append(rows_of(batch.record.offset, [id_row(row) for row in placed]))
        return result

    async def _begin(self, chunk: Chunk, batches: Sequence[_Batch], store: ColumnStore) -> _Partition:
        """What is known of the partition before the chunk."""
        partition = self._partitions.get(chunk.log)
        received_ms = min(batch.meta.received_ms for batch in batches)
        if partition is not None and partition.end == chunk.start:
            # The chunk before is stored.
            partition.visits.begin_chunk()
            if received_ms - _KEEP_MS - _SWEEP_MS > partition.horizon_ms:
                partition.horizon_ms = received_ms - _KEEP_MS
                partition.visits.drop_before(partition.horizon_ms)
        elif partition is not None and partition.start == chunk.start:
            # The same chunk again.
            partition.visits.undo()
        else:
            partition = _Partition(chunk.start, chunk.end, received_ms - _KEEP_MS)
            await _load(partition, chunk, store)
            self._partitions[chunk.log] = partition
        partition.start, partition.end = chunk.start, chunk.end
        return partition

    async def _look_up_old(self, chunk: Chunk, batches: Sequence[_Batch], store: ColumnStore) -> None:
        """Make those visits known that late events, and sessions that go on after a long pause, may join."""
        partition = self._partitions[chunk.log]
        old: set[int] = set()
        oldest_ms = partition.horizon_ms
        for event in chain.from_iterable(batch.collected.events for batch in batches):
            if event.session or event.occurred_ms - MAX_PAUSE_MS < partition.horizon_ms:
                old.add(event.session or event.visitor)
                if event.before:
                    old.add(event.before)
                oldest_ms = min(oldest_ms, event.occurred_ms - MAX_PAUSE_MS)
        if old:
            await _load(partition, chunk, store, oldest_ms, sorted(old))


def _read(chunk: Chunk, result: ChunkRows) -> list[_Batch]:
    """The batches of the chunk; what else its records hold goes into the result."""
    batches = []
    for record in chunk.records:
        try:
            meta = decode_collect_meta(record.meta)
            if meta.kind == "dropped":
                lines = dropped_rows(meta, decode_dropped(record.value), chunk.log, record.offset)
                result.tables.setdefault(DROPPED, []).append(lines)
            else:
                batches.append(_Batch(record, meta, decode_collected(record.value)))
        except msgspec.DecodeError as error:
            result.dead.append(DeadRecord(record, f"The record cannot be read: {error}"))
    return batches


async def _seen(chunk: Chunk, batches: Sequence[_Batch], store: ColumnStore) -> dict[tuple[int, int], int]:
    ids = [event.id for batch in batches for event in batch.collected.events]
    return await stored_events(
        store,
        sorted({batch.meta.site_id for batch in batches}),
        ids,
        chunk.log,
        chunk.start,
    )


def _is_new(meta: CollectMeta, event: CollectedEvent, seen: dict[tuple[int, int], int]) -> bool:
    identity = (meta.site_id, event.id.int)
    first_ms = seen.get(identity)
    if first_ms is not None and meta.received_ms - first_ms <= _REPEAT_MS:
        return False
    seen[identity] = meta.received_ms
    return True


def _place(visits: Visits, meta: CollectMeta, event: CollectedEvent) -> Visit:
    key: Key = (meta.site_id, event.session or event.visitor)
    before = (meta.site_id, event.before) if event.before else None
    return visits.assign(key, before, event.occurred_ms, is_session=event.session != 0)


async def _load(
    partition: _Partition,
    chunk: Chunk,
    store: ColumnStore,
    since_ms: int | None = None,
    keys: Sequence[int] = (),
) -> None:
    found = await stored_visits(
        store, chunk.log, chunk.start, partition.horizon_ms if since_ms is None else since_ms, keys
    )
    for stored in found:
        visit = Visit(stored.visit_id, stored.first_ms, stored.last_ms)
        partition.visits.add_stored([(stored.site_id, key) for key in stored.keys], visit)
