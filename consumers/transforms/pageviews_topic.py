"""The transform of collected page views and events: one row per event, with its visit; repeated events are dropped."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter

import msgspec

from analytics_queries.visits.stored_events import stored_events
from analytics_queries.visits.stored_visits import stored_visits
from consumers.chunk import Chunk, ChunkRows, DeadRecord, RowsOnly
from consumers.transforms.pageview_rows import dropped_rows, encode_record_rows, id_row, pageview_row
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

# An event with a known ID within this time is a duplicate.
_DUPLICATE_WINDOW_MS = 48 * 3_600_000
# Visits with an event within this time, by time of receipt, are kept in memory; older ones are read from the store.
_RETAIN_MS = 2 * 3_600_000
_PRUNE_INTERVAL_MS = 10 * 60_000


@dataclass(slots=True)
class _Partition:
    """The state of one partition of the log between its chunks."""

    start: int
    end: int
    horizon_ms: int
    """All visits with a later event are in `visits`."""
    visits: Visits = field(default_factory=Visits)


@dataclass(slots=True)
class _Batch:
    record: LogRecord
    meta: CollectMeta
    collected: Collected


class PageviewsTopic(RowsOnly):
    """The transform of `topics.PAGEVIEWS`. All events of a site are in one partition, in order of arrival."""

    topic = topics.PAGEVIEWS

    def __init__(self) -> None:
        self._partitions: dict[str, _Partition] = {}

    def weight(self, record: LogRecord) -> tuple[int, int]:
        return weigh(record, decode_collect_meta, attrgetter("events"), month_of_receipt)

    async def make_rows(self, chunk: Chunk, store: ColumnStore) -> ChunkRows:
        result = ChunkRows()
        batches = _decode_batches(chunk, result)
        if not batches:
            return result
        stored_ms = await _find_stored_events(chunk, batches, store)
        visits = (await self._prepare_partition(chunk, batches, store)).visits
        await self._load_old_visits(chunk, batches, store)
        rows, ids = result.tables.setdefault(PAGEVIEWS, []), result.tables.setdefault(IDS, [])
        for batch in batches:
            new_events = [event for event in batch.collected.events if _is_new(batch.meta, event, stored_ms)]
            result.duplicates += len(batch.collected.events) - len(new_events)
            if new_events:
                event_rows = [
                    pageview_row(
                        batch.meta,
                        batch.collected.country,
                        event,
                        _assign_visit(visits, batch.meta, event),
                        chunk.log,
                        batch.record.offset,
                    )
                    for event in new_events
                ]
                rows.append(encode_record_rows(batch.record.offset, event_rows))
                ids.append(encode_record_rows(batch.record.offset, [id_row(row) for row in event_rows]))
        return result

    async def _prepare_partition(
        self, chunk: Chunk, batches: Sequence[_Batch], store: ColumnStore
    ) -> _Partition:
        """Return the partition's state before the chunk."""
        partition = self._partitions.get(chunk.log)
        received_ms = min(batch.meta.received_ms for batch in batches)
        if partition is not None and partition.end == chunk.start:
            # The previous chunk is stored.
            partition.visits.begin_chunk()
            if received_ms - _RETAIN_MS - _PRUNE_INTERVAL_MS > partition.horizon_ms:
                partition.horizon_ms = received_ms - _RETAIN_MS
                partition.visits.drop_before(partition.horizon_ms)
        elif partition is not None and partition.start == chunk.start:
            # The same chunk again.
            partition.visits.undo()
        else:
            partition = _Partition(chunk.start, chunk.end, received_ms - _RETAIN_MS)
            await _load_visits(partition, chunk, store)
            self._partitions[chunk.log] = partition
        partition.start, partition.end = chunk.start, chunk.end
        return partition

    async def _load_old_visits(self, chunk: Chunk, batches: Sequence[_Batch], store: ColumnStore) -> None:
        """Load the visits that late events, and sessions that continue after a long pause, may join."""
        partition = self._partitions[chunk.log]
        old_keys: set[int] = set()
        oldest_ms = partition.horizon_ms
        for event in chain.from_iterable(batch.collected.events for batch in batches):
            if event.session or event.occurred_ms - MAX_PAUSE_MS < partition.horizon_ms:
                old_keys.add(event.session or event.visitor)
                if event.before:
                    old_keys.add(event.before)
                oldest_ms = min(oldest_ms, event.occurred_ms - MAX_PAUSE_MS)
        if old_keys:
            await _load_visits(partition, chunk, store, oldest_ms, sorted(old_keys))


def _decode_batches(chunk: Chunk, result: ChunkRows) -> list[_Batch]:
    """Return the batches of the chunk; add dead records and rows of dropped events to `result`."""
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


async def _find_stored_events(
    chunk: Chunk, batches: Sequence[_Batch], store: ColumnStore
) -> dict[tuple[int, int], int]:
    ids = [event.id for batch in batches for event in batch.collected.events]
    return await stored_events(
        store,
        sorted({batch.meta.site_id for batch in batches}),
        ids,
        chunk.log,
        chunk.start,
    )


def _is_new(meta: CollectMeta, event: CollectedEvent, stored_ms: dict[tuple[int, int], int]) -> bool:
    identity = (meta.site_id, event.id.int)
    first_ms = stored_ms.get(identity)
    if first_ms is not None and meta.received_ms - first_ms <= _DUPLICATE_WINDOW_MS:
        return False
    stored_ms[identity] = meta.received_ms
    return True


def _assign_visit(visits: Visits, meta: CollectMeta, event: CollectedEvent) -> Visit:
    key: Key = (meta.site_id, event.session or event.visitor)
    previous_key = (meta.site_id, event.before) if event.before else None
    return visits.assign(key, previous_key, event.occurred_ms, is_session=event.session != 0)


async def _load_visits(
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
