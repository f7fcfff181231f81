"""The transform of collected page views and events. Each event becomes one row with its visit. Repeated events are
dropped."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

import msgspec

from analytics_queries.visits.stored_events import stored_events
from analytics_queries.visits.stored_visits import StoredVisit, stored_visits
from consumers.chunk import Chunk, ChunkRows, DeadRecord, RowsOnly
from consumers.transforms.pageview_rows import (
    ReceivedEvent,
    decode_received,
    dropped_id_rows,
    dropped_rows,
    encode_record_rows,
    id_row,
    pageview_row,
)
from consumers.transforms.weight import month_of_receipt, weigh
from consumers.visits import MAX_PAUSE_MS, Visit, Visits
from pipeline_contracts import topics
from pipeline_contracts.collected import CollectMeta, Dropped, decode_collect_meta, decode_dropped
from pipeline_contracts.records import LogRecord
from storage_backends.column_store.interface import ColumnStore

PAGEVIEWS = "pharos.pageviews"
IDS = "pharos.pageview_ids"
DROPPED = "pharos.dropped_pageviews"

# An event whose ID was received within this time before is a duplicate.
_DUPLICATE_WINDOW_MS = 48 * 3_600_000
# Visits whose last event was received within this time are kept in memory. Older visits are read from the store.
_RETAIN_MS = 2 * 3_600_000
_PRUNE_INTERVAL_MS = 10 * 60_000
# Maximum number of visit keys in memory, for all partitions together: 350 MB. Anybody can begin visits, as fast as an
# account's rate allows.
_MAX_KEYS = 1_000_000
_INCOMPLETE = -1
# Number of events that are decoded and made into rows together. One query of `stored_events` looks up as many. Their
# objects fit into the processor's cache, but those of a whole chunk would not.
_SLICE_EVENTS = 2000


@dataclass(slots=True)
class _Partition:
    """What is kept of one partition of the log between two chunks."""

    start: int
    end: int
    """The end of the chunk that began at `start`. `_INCOMPLETE` while some events of the chunk have no visit yet."""
    horizon_ms: int
    """A time in milliseconds since 1970: `visits` has all visits with an event after this time."""
    visits: Visits = field(default_factory=Visits)


class _Head(msgspec.Struct, gc=False):
    """A record of events whose value is not decoded yet."""

    record: LogRecord
    meta: CollectMeta


class _Drops(msgspec.Struct, gc=False):
    """A record of dropped events."""

    offset: int
    meta: CollectMeta
    dropped: Dropped


class _Batch(msgspec.Struct, gc=False):
    """The events of one record."""

    offset: int
    meta: CollectMeta
    country: str
    events: list[ReceivedEvent]


class PageviewsTopic(RowsOnly):
    """The transform of the topic `topics.PAGEVIEWS`. All events of a site are in one partition, in the order in which
    they arrived."""

    topic = topics.PAGEVIEWS

    def __init__(self) -> None:
        self._partitions: dict[str, _Partition] = {}

    def weight(self, record: LogRecord) -> tuple[int, int]:
        return weigh(record, decode_collect_meta, attrgetter("events"), month_of_receipt)

    async def make_rows(self, chunk: Chunk, store: ColumnStore) -> ChunkRows:
        result = ChunkRows()
        heads, drops = _decode_heads(chunk, result)
        if heads:
            await self._add_events(result, chunk, heads, store)
        if drops:
            await _add_dropped(result, chunk, drops, store)
        return result

    async def _add_events(
        self, result: ChunkRows, chunk: Chunk, heads: Sequence[_Head], store: ColumnStore
    ) -> None:
        partition = await self._prepare_partition(chunk, heads, store)
        received_ms: dict[tuple[int, bytes], int] = {}
        slices, are_old_loaded = _decode_slices(heads, result), False
        while (batches := next(slices, None)) is not None:
            if not are_old_loaded and _find_old(partition, batches).keys:
                # Look up all events of the chunk at once, because each look-up reads a day or more of the table.
                rest = list(slices)
                slices, are_old_loaded = iter(rest), True
                await _load_old_visits(partition, chunk, list(chain(batches, *rest)), store)
            for identity, stored_ms in (await _find_stored_events(chunk, batches, store)).items():
                received_ms.setdefault(identity, stored_ms)
            _add_rows(result, chunk.log, batches, received_ms, partition.visits)
        partition.end = chunk.end

    async def _prepare_partition(
        self, chunk: Chunk, heads: Sequence[_Head], store: ColumnStore
    ) -> _Partition:
        """Return the state of the partition before this chunk."""
        partition = self._partitions.get(chunk.log)
        received_ms = min(head.meta.received_ms for head in heads)
        if partition is not None and partition.end == chunk.start:
            # The previous chunk is stored: keep its visits.
            partition.visits.begin_chunk()
            self._prune(partition, received_ms)
        elif partition is not None and partition.start == chunk.start:
            # This is the same chunk again: undo the earlier attempt.
            partition.visits.undo()
        else:
            partition = _Partition(chunk.start, _INCOMPLETE, received_ms - _RETAIN_MS)
            # Store the partition only once its visits are loaded: if loading fails, the chunk is tried again.
            await _load_recent_visits(partition, chunk, store, _MAX_KEYS // (len(self._partitions) + 1))
            self._partitions[chunk.log] = partition
        # The chunk is complete only once all its events have their visits.
        partition.start, partition.end = chunk.start, _INCOMPLETE
        return partition

    def _prune(self, partition: _Partition, received_ms: int) -> None:
        """Drop the visits that ended long ago. If there are still too many, drop the older half. A late event looks up
        dropped visits."""
        max_keys = _MAX_KEYS // len(self._partitions)
        is_late = received_ms - _RETAIN_MS - _PRUNE_INTERVAL_MS > partition.horizon_ms
        are_many = len(partition.visits) > max_keys
        if is_late:
            partition.horizon_ms = received_ms - _RETAIN_MS
        if are_many:
            newest_ms = partition.visits.last_event_of(max_keys // 2)
            partition.horizon_ms = max(partition.horizon_ms, newest_ms + 1)
        if is_late or are_many:
            partition.visits.drop_before(partition.horizon_ms)


class _Old(NamedTuple):
    """The keys of visits that may have begun before the visits in memory, and the earliest time to read."""

    keys: set[int]
    since_ms: int


def _find_old(partition: _Partition, batches: Sequence[_Batch]) -> _Old:
    """Return the visits to look up: those that late events, and sessions that continue after a long pause, may
    join."""
    old_keys: set[int] = set()
    oldest_ms = partition.horizon_ms
    late_before_ms = oldest_ms + MAX_PAUSE_MS
    for batch in batches:
        for event in batch.events:
            if event.session or event.occurred_ms < late_before_ms:
                old_keys.add(event.session or event.visitor)
                if event.previous_day_hash:
                    old_keys.add(event.previous_day_hash)
                oldest_ms = min(oldest_ms, event.occurred_ms - MAX_PAUSE_MS)
    return _Old(old_keys, oldest_ms)


def _decode_heads(chunk: Chunk, result: ChunkRows) -> tuple[list[_Head], list[_Drops]]:
    """Return the records of events and those of dropped events; add dead records to `result`."""
    heads, drops = [], []
    for record in chunk.records:
        try:
            meta = decode_collect_meta(record.meta)
            if meta.kind == "events":
                heads.append(_Head(record, meta))
                continue
            drops.append(_Drops(record.offset, meta, decode_dropped(record.value)))
        except msgspec.DecodeError as error:
            result.dead.append(_unreadable(record, error))
    return heads, drops


def _decode_slices(heads: Sequence[_Head], result: ChunkRows) -> Iterator[list[_Batch]]:
    """Yield the batches of the records, about `_SLICE_EVENTS` events at a time. Add dead records to `result`."""
    batches: list[_Batch] = []
    number = 0
    for head in heads:
        record = head.record
        try:
            received = decode_received(record.value)
        except msgspec.DecodeError as error:
            result.dead.append(_unreadable(record, error))
            continue
        batches.append(_Batch(record.offset, head.meta, received.country, received.events))
        number += len(received.events)
        if number >= _SLICE_EVENTS:
            yield batches
            batches, number = [], 0
    if batches:
        yield batches


def _unreadable(record: LogRecord, error: msgspec.DecodeError) -> DeadRecord:
    return DeadRecord(record, f"The record cannot be read: {error}")


async def _add_dropped(result: ChunkRows, chunk: Chunk, drops: Sequence[_Drops], store: ColumnStore) -> None:
    """Add the rows of dropped events whose record is not stored yet."""
    sites = sorted({each.meta.site_id for each in drops})
    identities = [each.dropped.id for each in drops if each.dropped.id]
    stored = set(await stored_events(store, sites, identities, chunk.log, chunk.start))
    for each in drops:
        identity = (each.meta.site_id, each.dropped.id)
        if identity in stored:
            result.duplicates += 1
            continue
        rows = dropped_rows(each.meta, each.dropped, chunk.log, each.offset)
        result.tables.setdefault(DROPPED, []).append(rows)
        if each.dropped.id:
            stored.add(identity)
            id_rows = dropped_id_rows(each.meta, each.dropped, chunk.log, each.offset)
            result.tables.setdefault(IDS, []).append(id_rows)


async def _find_stored_events(
    chunk: Chunk, batches: Sequence[_Batch], store: ColumnStore
) -> dict[tuple[int, bytes], int]:
    return await stored_events(
        store,
        sorted({batch.meta.site_id for batch in batches}),
        [event.id for batch in batches for event in batch.events],
        chunk.log,
        chunk.start,
    )


def _add_rows(
    result: ChunkRows,
    log: str,
    batches: Sequence[_Batch],
    received_ms: dict[tuple[int, bytes], int],
    visits: Visits,
) -> None:
    """Add the rows of the events that are not stored yet. `received_ms`: the time of receipt of each stored event."""
    rows, ids = result.tables.setdefault(PAGEVIEWS, []), result.tables.setdefault(IDS, [])
    for batch in batches:
        meta, offset, country = batch.meta, batch.offset, batch.country
        site_id, batch_ms = meta.site_id, meta.received_ms
        received_at = batch_ms / 1000
        event_rows = []
        for event in batch.events:
            identity = (site_id, event.id)
            first_ms = received_ms.get(identity)
            if first_ms is not None and batch_ms - first_ms <= _DUPLICATE_WINDOW_MS:
                result.duplicates += 1
                continue
            received_ms[identity] = batch_ms
            visit = _assign_visit(visits, site_id, event)
            event_rows.append(pageview_row(site_id, received_at, country, event, visit, log, offset))
        if event_rows:
            rows.append(encode_record_rows(offset, event_rows))
            ids.append(encode_record_rows(offset, [id_row(row) for row in event_rows]))


def _assign_visit(visits: Visits, site_id: int, event: ReceivedEvent) -> Visit:
    session, previous_day_hash = event.session, event.previous_day_hash
    return visits.assign(
        (site_id, session or event.visitor),
        (site_id, previous_day_hash) if previous_day_hash else None,
        event.occurred_ms,
        is_session=session != 0,
    )


async def _load_recent_visits(
    partition: _Partition, chunk: Chunk, store: ColumnStore, max_visits: int
) -> None:
    """Load the visits since the horizon. If there are too many, load only the newest ones and move the horizon."""
    found = await stored_visits(store, chunk.log, chunk.start, partition.horizon_ms, most=max_visits)
    if len(found) == max_visits:
        partition.horizon_ms = min(visit.last_ms for visit in found) + 1
    _add_stored(partition, found)


async def _load_old_visits(
    partition: _Partition, chunk: Chunk, batches: Sequence[_Batch], store: ColumnStore
) -> None:
    old = _find_old(partition, batches)
    _add_stored(partition, await stored_visits(store, chunk.log, chunk.start, old.since_ms, sorted(old.keys)))


def _add_stored(partition: _Partition, found: Sequence[StoredVisit]) -> None:
    for stored in found:
        visit = Visit(stored.visit_id, stored.first_ms, stored.last_ms)
        partition.visits.add_stored([(stored.site_id, key) for key in stored.keys], visit)
