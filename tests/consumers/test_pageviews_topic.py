"""Page views become rows: each event once, with its visit, even after repeated attempts."""

import itertools
import uuid
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from analytics_queries.visits.stored_visits import stored_visits
from consumers.chunk import Chunk, ChunkRows
from consumers.insert_chunk import insert_chunk
from consumers.transforms import pageviews_topic
from consumers.transforms.pageviews_topic import DROPPED, IDS, PAGEVIEWS, PageviewsTopic
from pipeline_contracts.collected import CollectMeta, Dropped, encode_collected
from pipeline_contracts.errors import StorageUnavailable
from pipeline_contracts.records import LogRecord
from pipeline_contracts.times import format_time, from_epoch_ms
from storage_backends.column_store.apply_schema import apply_schema
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from storage_backends.column_store.clickhouse_server import open_clickhouse_server
from storage_backends.column_store.interface import ColumnStore
from tests.analytics_queries.oracle.sent import Sent
from tests.support.site_traffic import ignore_step, make_records

_NOON_MS = 20_778 * 86_400_000 + 43_200_000
_MINUTE_MS = 60_000
_sites = itertools.count(500)


def sent(
    received_ms: int, *, identity: str | None = None, address: str = "203.0.113.7", **fields: Any
) -> Sent:
    event = {"id": identity or str(uuid.uuid4()), "type": "pageview", "path": "/", **fields}
    return Sent(received_ms, address, "Firefox", "NO", event)


def chunk_of(log: str, records: Sequence[LogRecord]) -> Chunk:
    return Chunk(log, records[0].offset, records[-1].offset + 1, records)


async def store(topic: PageviewsTopic, chunk: Chunk, into: ColumnStore) -> ChunkRows:
    rows = await topic.make_rows(chunk, into)
    await insert_chunk(into, chunk, rows.tables, topic, tried_before=False, on_step=ignore_step)
    return rows


async def visits_of(store: ChdbColumnStore, site_id: int) -> list[list[int]]:
    """Return the offsets of each visit's events."""
    result = await store.query(
        "SELECT arraySort(groupArray(log_offset)) AS offsets FROM pharos.pageviews WHERE site_id = {site:UInt64} "
        "GROUP BY visit_id ORDER BY offsets",
        {"site": site_id},
    )
    return [list(offsets) for (offsets,) in result.rows]


async def test_a_repeated_event_is_stored_once(column_store: ChdbColumnStore) -> None:
    site_id = next(_sites)
    same = str(uuid.uuid4())
    hour_ms = 60 * _MINUTE_MS
    traffic = [
        sent(_NOON_MS, identity=same),
        sent(_NOON_MS + 1, identity=same),
        sent(_NOON_MS + hour_ms, identity=same),
        sent(_NOON_MS + 48 * hour_ms, identity=same),
        sent(_NOON_MS + 49 * hour_ms, identity=same),
    ]
    records = make_records(site_id, (), traffic)
    topic = PageviewsTopic()
    duplicates = [
        (await store(topic, chunk_of(f"again/{site_id}", part), column_store)).duplicates
        for part in (records[:2], records[2:4], records[4:])
    ]
    assert duplicates == [1, 2, 0]
    assert await visits_of(column_store, site_id) == [[0], [4]]


async def test_all_duplicates_of_a_large_chunk_are_found_on_either_store(
    column_store: ChdbColumnStore, clickhouse_url: str
) -> None:
    server = await open_clickhouse_server(clickhouse_url)
    await apply_schema(server)
    number = 5000
    identities = [str(uuid.UUID(int=index << 64 | 1)) for index in range(1, number + 1)]
    try:
        for into in (column_store, server):
            site_id = next(_sites)
            # As many visitors and sessions, some of them late: the lookups need more than one query.
            traffic = [
                sent(
                    _NOON_MS + index,
                    identity=event_id,
                    address=f"10.0.{index >> 8}.{index & 255}",
                    session=event_id,
                )
                for index, event_id in enumerate(identities)
            ]
            records = make_records(site_id, (), [*traffic, *traffic])
            topic = PageviewsTopic()
            log = f"large/{site_id}/{uuid.uuid4()}"
            await store(topic, chunk_of(log, records[:number]), into)
            again = await store(topic, chunk_of(log, records[number:]), into)
            assert again.duplicates == number
    finally:
        await server.close()


async def test_a_restart_continues_earlier_visits(column_store: ChdbColumnStore) -> None:
    site_id = next(_sites)
    traffic = [sent(_NOON_MS + minutes * _MINUTE_MS) for minutes in (0, 20, 45, 80)]
    records = make_records(site_id, (), traffic)
    for record in records:
        await store(PageviewsTopic(), chunk_of(f"restart/{site_id}", [record]), column_store)
    assert await visits_of(column_store, site_id) == [[0, 1, 2], [3]]


async def test_a_late_event_joins_a_visit_that_is_no_longer_in_memory(column_store: ChdbColumnStore) -> None:
    site_id = next(_sites)
    hour_ms = 60 * _MINUTE_MS
    late = format_time(from_epoch_ms(_NOON_MS + 10 * _MINUTE_MS))
    traffic = [
        sent(_NOON_MS),
        sent(_NOON_MS + 9 * hour_ms, address="198.51.100.9"),
        sent(_NOON_MS + 10 * hour_ms, occurred_at=late),
    ]
    records = make_records(site_id, (), traffic)
    topic = PageviewsTopic()
    for record in records:
        await store(topic, chunk_of(f"late/{site_id}", [record]), column_store)
    assert await visits_of(column_store, site_id) == [[0, 2], [1]]


async def test_old_visits_of_a_chunk_are_looked_up_once(
    column_store: ChdbColumnStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    site_id = next(_sites)
    monkeypatch.setattr(pageviews_topic, "_SLICE_EVENTS", 1)
    topic, log = PageviewsTopic(), f"late slices/{site_id}"
    addresses = [f"203.0.113.{number}" for number in range(5)]
    later_ms = _NOON_MS + 600 * _MINUTE_MS
    late = format_time(from_epoch_ms(_NOON_MS + 10 * _MINUTE_MS))
    traffic = [sent(_NOON_MS, address=address) for address in addresses]
    traffic.append(sent(later_ms))
    traffic += [
        each
        for address in addresses
        for each in (sent(later_ms, address=address), sent(later_ms, address=address, occurred_at=late))
    ]
    records = make_records(site_id, (), traffic)
    for first, last in ((0, 5), (5, 6)):
        await store(topic, chunk_of(log, records[first:last]), column_store)
    looked_up: list[Any] = []

    async def count(*arguments: Any) -> Any:
        looked_up.append(arguments)
        return await stored_visits(*arguments)

    monkeypatch.setattr(pageviews_topic, "stored_visits", count)
    await store(topic, chunk_of(log, records[6:]), column_store)
    assert len(looked_up) == 1
    visits = await visits_of(column_store, site_id)
    assert [offsets for offsets in visits if offsets[0] < 5] == [[n, 7 + 2 * n] for n in range(5)]


async def test_a_session_continues_after_hours(column_store: ChdbColumnStore) -> None:
    site_id = next(_sites)
    traffic = [sent(_NOON_MS + hours * 60 * _MINUTE_MS, session="s") for hours in (0, 5, 11)]
    records = make_records(site_id, (), traffic)
    topic = PageviewsTopic()
    for record in records:
        await store(topic, chunk_of(f"session/{site_id}", [record]), column_store)
    assert await visits_of(column_store, site_id) == [[0, 1, 2]]


async def test_a_repeated_chunk_gives_the_same_rows(column_store: ChdbColumnStore) -> None:
    site_id = next(_sites)
    minutes = (0, 40, 25, 70, 71, 10)
    records = make_records(site_id, (), [sent(_NOON_MS + event_id * _MINUTE_MS) for event_id in minutes])
    log = f"same/{site_id}"
    topic = PageviewsTopic()
    first, second = chunk_of(log, records[:2]), chunk_of(log, records[2:])
    await store(topic, first, column_store)
    made = [(await topic.make_rows(second, column_store)).tables for _ in range(3)]
    made.append((await PageviewsTopic().make_rows(second, column_store)).tables)
    await insert_chunk(column_store, second, made[0], topic, tried_before=False, on_step=ignore_step)
    made.append((await topic.make_rows(second, column_store)).tables)
    made.append((await PageviewsTopic().make_rows(second, column_store)).tables)
    assert all(tables == made[0] for tables in made)
    # Another process repeats the whole chunk: no rows are added.
    rows = await PageviewsTopic().make_rows(second, column_store)
    await insert_chunk(column_store, second, rows.tables, topic, tried_before=True, on_step=ignore_step)
    count = await column_store.query(
        "SELECT count(), uniqExact(id) FROM pharos.pageviews WHERE site_id = {site:UInt64}", {"site": site_id}
    )
    assert count.rows == [[len(records), len(records)]]


async def test_dropped_events_are_counted_by_reason(column_store: ChdbColumnStore) -> None:
    """A record that an edge has appended again counts once; records without an ID, of older edges, always count."""
    site_id = next(_sites)
    meta = encode_collected(CollectMeta(site_id, _NOON_MS, 2, "dropped"))
    first, second = uuid.uuid4().bytes, uuid.uuid4().bytes
    values = [
        Dropped({"bot": 1, "opted_out": 2}, first),
        Dropped({"bot": 1, "opted_out": 2}, first),
        Dropped({"bot": 2}, second),
        Dropped({"bot": 4}),
        Dropped({"bot": 1, "opted_out": 2}, first),
        Dropped({"bot": 4}),
    ]
    records = [LogRecord(at, b"", meta, encode_collected(value)) for at, value in enumerate(values)]
    log = f"dropped/{site_id}"
    rows = await store(PageviewsTopic(), chunk_of(log, records[:3]), column_store)
    assert (list(rows.tables), rows.duplicates) == ([DROPPED, IDS], 1)
    rows = await store(PageviewsTopic(), chunk_of(log, records[3:]), column_store)
    assert (list(rows.tables), rows.duplicates) == ([DROPPED], 1)
    result = await column_store.query(
        "SELECT reason, sum(events) FROM pharos.dropped_pageviews WHERE site_id = {site:UInt64} "
        "GROUP BY reason ORDER BY reason",
        {"site": site_id},
    )
    assert result.rows == [["bot", 1 + 2 + 4 + 4], ["opted_out", 2]]


async def test_an_unreadable_record_becomes_a_dead_letter_and_the_rest_is_stored(
    column_store: ChdbColumnStore,
) -> None:
    site_id = next(_sites)
    (good,) = make_records(site_id, (), [sent(_NOON_MS)])
    bad = [LogRecord(1, b"", b"\xc1", good.value), LogRecord(2, b"", good.meta, b"\xc1")]
    rows = await store(PageviewsTopic(), chunk_of(f"bad/{site_id}", [good, *bad]), column_store)
    assert [dead.record.offset for dead in rows.dead] == [1, 2]
    assert [part.offset for part in rows.tables[PAGEVIEWS]] == [0]


async def test_a_flood_of_visitors_keeps_only_the_newest_in_memory(
    column_store: ChdbColumnStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The visits are the same: evicted visits are looked up in the store, even after a restart."""
    random = Random(7)
    times = [minute * _MINUTE_MS for minute in range(0, 240, 6) for _ in range(4)]
    visitors = [(_NOON_MS + at_ms, f"203.0.113.{random.randrange(40)}") for at_ms in times]

    async def run() -> tuple[list[list[int]], int]:
        site_id = next(_sites)
        log = f"flood/{site_id}"
        records = make_records(site_id, (), [sent(at_ms, address=address) for at_ms, address in visitors])
        topic, most = PageviewsTopic(), 0
        for begin in range(0, len(records), 16):
            if begin == 80:
                topic = PageviewsTopic()
            await store(topic, chunk_of(log, records[begin : begin + 16]), column_store)
            most = max(most, len(topic._partitions[log].visits))
        return await visits_of(column_store, site_id), most

    visits, most = await run()
    monkeypatch.setattr(pageviews_topic, "_MAX_KEYS", 12)
    few_visits, few = await run()
    assert few_visits == visits
    assert most > 30 > few


@pytest.mark.parametrize("failing", [0, 1])
async def test_a_chunk_that_failed_is_not_known_when_another_consumer_has_finished_it(
    column_store: ChdbColumnStore, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    site_id = next(_sites)
    log = f"failed/{site_id}"
    monkeypatch.setattr(pageviews_topic, "_SLICE_EVENTS", 1)
    traffic = [sent(_NOON_MS + minutes * _MINUTE_MS) for minutes in (0, 20, 40, 60)]
    first, *middle, last = make_records(site_id, (), traffic)
    mine, others = PageviewsTopic(), PageviewsTopic()
    await store(mine, chunk_of(log, [first]), column_store)
    find = pageviews_topic._find_stored_events
    looked_up: list[int] = []

    async def fail(*arguments: Any) -> Any:
        looked_up.append(1)
        if len(looked_up) > failing:
            raise StorageUnavailable("away")
        return await find(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(pageviews_topic, "_find_stored_events", fail)
        with pytest.raises(StorageUnavailable):
            await mine.make_rows(chunk_of(log, middle), column_store)
    await store(others, chunk_of(log, middle), column_store)
    await store(mine, chunk_of(log, [last]), column_store)
    assert await visits_of(column_store, site_id) == [[0, 1, 2, 3]]
