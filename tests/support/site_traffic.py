"""Takes events of browsers through the parts of edge and consumer into the column store, with a clock of the test's."""

from collections.abc import Iterable, Sequence
from itertools import groupby

import msgspec

from consumers.chunk import Chunk
from consumers.insert_chunk import insert_chunk
from consumers.transforms.pageviews_topic import PageviewsTopic
from ingest_edge.collect.events import Client, collect_events
from ingest_edge.collect.visitors import VisitorHashes
from pipeline_contracts.collected import Collected, CollectMeta, SentEvent, encode_collected
from pipeline_contracts.records import LogRecord
from pipeline_contracts.times import DAY_MS
from storage_backends.column_store.interface import ColumnStore
from tests.analytics_queries.oracle.sent import Sent


def salts_at(received_ms: int) -> dict[int, bytes]:
    """What an edge has at this time: the salts of today, of the day before and of the day to come."""
    today = received_ms // DAY_MS
    return {day: day.to_bytes(16) for day in (today - 1, today, today + 1)}


def make_records(site_id: int, origins: tuple[str, ...], sent: Iterable[Sent]) -> list[LogRecord]:
    """A record for each event, as the edge makes it."""
    records = []
    for offset, one in enumerate(sent):
        event = msgspec.convert(one.event, SentEvent)
        hashes = VisitorHashes(salts_at(one.received_ms), site_id, one.address, one.user_agent)
        collected = collect_events([event], one.received_ms, origins, Client(), hashes)
        meta = CollectMeta(site_id, one.received_ms, 1)
        records.append(
            LogRecord(
                offset,
                str(site_id).encode(),
                encode_collected(meta),
                encode_collected(Collected(one.country or "", collected)),
            )
        )
    return records


async def ignore_step(step: str) -> None:
    """Nothing happens between the steps."""


async def store_records(
    store: ColumnStore, log: str, records: Sequence[LogRecord], cuts: Sequence[int] = ()
) -> PageviewsTopic:
    """Carry the records out in chunks that end at `cuts` and wherever the consumer's loop has to end one."""
    topic = PageviewsTopic()
    ends = {*cuts, len(records)}
    begin = 0
    for end in sorted(ends):
        for _, part in groupby(records[begin:end], key=lambda record: topic.weight(record)[1]):
            chunk_records = list(part)
            chunk = Chunk(log, chunk_records[0].offset, chunk_records[-1].offset + 1, chunk_records)
            rows = await topic.make_rows(chunk, store)
            assert not rows.dead
            await insert_chunk(store, chunk, rows.tables, topic, tried_before=False, on_step=ignore_step)
        begin = end
    return topic
