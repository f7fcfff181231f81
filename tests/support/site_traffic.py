"""Stores browser events with the code of the edge and the consumer, and with the test's own clock."""

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
    """Return the salts that an edge has at this time: those of yesterday, today and tomorrow, by UTC day."""
    today = received_ms // DAY_MS
    return {day: day.to_bytes(16) for day in (today - 1, today, today + 1)}


def make_records(site_id: int, origins: tuple[str, ...], sent: Iterable[Sent]) -> list[LogRecord]:
    """Return a record for each event, as the edge makes it."""
    records = []
    for offset, received in enumerate(sent):
        event = msgspec.convert(received.event, SentEvent)
        hashes = VisitorHashes(salts_at(received.received_ms), site_id, received.address, received.user_agent)
        collected = collect_events([event], received.received_ms, origins, Client(), hashes)
        meta = CollectMeta(site_id, received.received_ms, 1)
        records.append(
            LogRecord(
                offset,
                str(site_id).encode(),
                encode_collected(meta),
                encode_collected(Collected(received.country or "", collected)),
            )
        )
    return records


async def ignore_step(step: str) -> None:
    """Do nothing between the steps."""


async def store_records(
    store: ColumnStore, log: str, records: Sequence[LogRecord], cuts: Sequence[int] = ()
) -> PageviewsTopic:
    """Store the records in chunks that end at `cuts` and where the consumer's loop must end a chunk."""
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
