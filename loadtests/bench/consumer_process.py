"""A child process that runs only a consumer: it fills a log, and then consumes the log into a column store."""

import asyncio
import gc
import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvloop

from consumers.assemble import TRANSFORMS, assemble_loop
from consumers.chunk import Transform
from consumers.loop import ConsumerLoop
from consumers.transforms.pageviews_topic import IDS
from consumers.transforms.receipts import RECEIPTS
from loadtests.bench.child_process import send_result
from loadtests.bench.collect_payloads import collect_bodies, collected_records
from loadtests.bench.null_column_store import NullColumnStore
from loadtests.bench.otlp_payloads import RECORDS, otlp_bodies
from loadtests.bench.payloads import batch_id, make_bodies, number_body
from loadtests.bench.process_usage import cpu_seconds, forget_peak, peak_mb, thread_cpu_seconds
from pipeline_contracts import topics
from pipeline_contracts.collected import CollectMeta, encode_collected
from pipeline_contracts.identifiers import receipt_name
from pipeline_contracts.otlp.records import Coding, OtlpMeta, encode_otlp_meta
from pipeline_contracts.records import BatchMeta, encode_meta
from pipeline_contracts.settings import Settings
from storage_backends.column_store.apply_schema import apply_schema
from storage_backends.column_store.chdb_embedded import open_chdb
from storage_backends.column_store.interface import ColumnStore
from storage_backends.event_log.interface import EventLog, LogConsumer
from storage_backends.event_log.kafka import open_kafka_log
from storage_backends.event_log.kafka_connection import KafkaConnection
from storage_backends.event_log.kafka_consumer import KafkaLogConsumer
from storage_backends.event_log.sqlite import open_sqlite_log
from storage_backends.event_log.sqlite_consumer import SqliteLogConsumer
from wiring.embedded.allocator import keep_freed_memory

_ENVIRONMENT = "env_01jz0000000000000000000000"
BODIES = 256
# As many requests as a busy edge has in flight when it commits to the log.
_MAX_CONCURRENT = 32
_SETTLE_SECONDS = 60.0
_QUIET_SECONDS = 3.0


async def _run(
    folder: Path,
    events: int,
    batch_events: int,
    into: str,
    bootstrap: str | None,
    name: str,
    coding: Coding,
    store_folder: Path,
    site: int,
    chunk_rows: int,
    commands: Sequence[str],
) -> None:
    async with AsyncExitStack() as exits:
        transform = TRANSFORMS[name]()
        log, reader = await open_log(exits, folder, bootstrap, transform.topic)
        store: ColumnStore = NullColumnStore() if into == "nothing" else await open_chdb(store_folder)
        exits.push_async_callback(store.close)
        await apply_schema(store)
        for command in commands:
            await store.command(command)
        if name == "telemetry":
            await _fill(log, events, batch_events)
        elif name == "pageviews":
            await _fill_pageviews(log, events, site)
        else:
            await _fill_otlp(log, transform.topic, name, coding, events)
        gc.collect()
        gc.freeze()
        forget_peak(os.getpid())
        await _consume(transform, log, reader, store, events, chunk_rows)


async def open_log(
    exits: AsyncExitStack, folder: Path, bootstrap: str | None, topic: str
) -> tuple[EventLog, LogConsumer]:
    if bootstrap is None:
        embedded = await open_sqlite_log(folder / "event-log.sqlite", 2**40)
        exits.push_async_callback(embedded.close)
        return embedded, SqliteLogConsumer(embedded, topics.CONSUMER_GROUP, topic)
    connection = KafkaConnection(bootstrap)
    log = await open_kafka_log(connection, [topic], buffer_bytes=2**26, acknowledge_seconds=20.0)
    exits.push_async_callback(log.close)
    while log.stalled_reason() is not None:  # noqa: ASYNC110 (there is no event to await)
        await asyncio.sleep(0.02)
    reader = KafkaLogConsumer(connection, topics.CONSUMER_GROUP, topic)
    exits.push_async_callback(reader.close)
    return log, reader


async def _fill(log: EventLog, events: int, batch_events: int) -> None:
    bodies = make_bodies(BODIES, batch_events)
    batches = events // batch_events
    for begin in range(0, batches, _MAX_CONCURRENT):
        await asyncio.gather(
            *(
                append_batch(log, bodies[n % BODIES], n, batch_events)
                for n in range(begin, min(begin + _MAX_CONCURRENT, batches))
            )
        )


async def _fill_otlp(log: EventLog, topic: str, signal: str, coding: Coding, records: int) -> None:
    # The record that the edge (`AcceptOtlp`) makes of a request.
    bodies = otlp_bodies(signal, coding, BODIES)
    meta = encode_otlp_meta(
        OtlpMeta("acc_1", "prj_1", _ENVIRONMENT, time.time_ns() // 1_000_000, RECORDS, coding)
    )
    requests = records // RECORDS
    for begin in range(0, requests, _MAX_CONCURRENT):
        await asyncio.gather(
            *(
                log.append(topic, b"%d" % n, meta, bodies[n % BODIES])
                for n in range(begin, min(begin + _MAX_CONCURRENT, requests))
            )
        )


async def _fill_pageviews(log: EventLog, events: int, site: int) -> None:
    """Add page views to the log: one per request, as in most requests, and four in a row for each visitor."""
    received_ms = time.time_ns() // 1_000_000
    meta = encode_collected(CollectMeta(site, received_ms, 1))
    key = b"%d" % site
    for begin in range(0, events, _MAX_CONCURRENT * 100):
        bodies = collect_bodies(min(_MAX_CONCURRENT * 100, events - begin), 1, begin)
        values = collected_records(bodies, received_ms, begin)
        await asyncio.gather(*(log.append(topics.PAGEVIEWS, key, meta, value) for value in values))


async def append_batch(log: EventLog, body: bytes, number: int, events: int) -> None:
    # The record that the edge (`Accept`) makes of a request.
    name = batch_id(number)
    meta = BatchMeta(
        "acc_01jz0000000000000000000000",
        "prj_01jz0000000000000000000000",
        _ENVIRONMENT,
        time.time_ns() // 1_000_000,
        events,
        name,
    )
    key = receipt_name(_ENVIRONMENT, name).encode()
    await log.append(topics.TELEMETRY, key, encode_meta(meta), number_body(body, number))


class _ChunkTimes:
    """Records how many seconds pass from a complete chunk to its commit."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._begun: dict[asyncio.Task[None] | None, float] = {}

    async def __call__(self, step: str) -> None:
        if step == "before plan":
            self._begun[asyncio.current_task()] = time.perf_counter()
        elif step == "after commit":
            self.seconds.append(time.perf_counter() - self._begun[asyncio.current_task()])


async def _consume(
    transform: Transform, log: EventLog, reader: LogConsumer, store: ColumnStore, events: int, chunk_rows: int
) -> None:
    settings = replace(Settings(), chunk_rows=chunk_rows)
    chunks = _ChunkTimes()
    loop = assemble_loop(settings, transform, consumer=reader, log=log, store=store, on_step=chunks)
    own = os.getpid()
    whole, consumer, started = cpu_seconds(own), _consumer_cpu_seconds(), time.perf_counter()
    working = asyncio.create_task(loop.run())
    while _rows(loop) < events and not working.done():  # noqa: ASYNC110 (there is no event to await)
        await asyncio.sleep(0.05)
    seconds = time.perf_counter() - started
    loop.stop.set()
    await working
    worked = {
        "seconds": seconds,
        "cpu_seconds": cpu_seconds(own) - whole,
        "consumer_cpu_seconds": _consumer_cpu_seconds() - consumer,
    }
    peak = peak_mb(own)
    await _wait_for_merges(store)
    send_result(
        {
            **worked,
            "settled_cpu_seconds": cpu_seconds(own) - whole,
            "rows": _rows(loop),
            "chunk_seconds": chunks.seconds,
            "peak_mb": peak,
        }
    )


def _rows(loop: ConsumerLoop) -> int:
    """Return the number of rows of events or records. Receipts and IDs for look-ups do not count."""
    return sum(rows for table, rows in loop.metrics.rows.items() if table not in (RECEIPTS, IDS))


def _consumer_cpu_seconds() -> float:
    """Return the CPU time of this process's Python threads in seconds. Threads that wait for the column store's
    engine are left out."""
    used = thread_cpu_seconds(os.getpid())
    return sum(
        used.get(thread.native_id or 0, 0.0)
        for thread in threading.enumerate()
        if not thread.name.startswith("chdb-")
    )


async def _wait_for_merges(store: ColumnStore) -> None:
    # A merge begins some time after the insert that causes it. After a quiet period, all merges are done.
    deadline = time.monotonic() + _SETTLE_SECONDS
    quiet_since = time.monotonic()
    while time.monotonic() < min(deadline, quiet_since + _QUIET_SECONDS):
        if isinstance(store, NullColumnStore):
            return
        ((merges,),) = (await store.query("SELECT count() FROM system.merges")).rows
        if merges:
            quiet_since = time.monotonic()
        await asyncio.sleep(0.2)


def main() -> None:
    """Fill the log, consume it, report, and end. The argument is a JSON object: folder, events, batch_events, into,
    and bootstrap or null. For anything but telemetry also transform, and for OTLP also coding. Optional members:
    store_folder (the folder of an existing column store), site (of page views), chunk_rows (the most rows of an
    insert), and commands (SQL that the store runs first)."""
    arguments: dict[str, Any] = json.loads(sys.argv[1])
    # `pharos up` has the same setting.
    keep_freed_memory()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(
            _run(
                Path(arguments["folder"]),
                arguments["events"],
                arguments["batch_events"],
                arguments["into"],
                arguments["bootstrap"],
                arguments.get("transform", "telemetry"),
                arguments.get("coding", "json"),
                Path(arguments.get("store_folder", Path(arguments["folder"]) / "clickhouse")),
                arguments.get("site", 1),
                arguments.get("chunk_rows", Settings().chunk_rows),
                arguments.get("commands", ()),
            )
        )


if __name__ == "__main__":
    main()
