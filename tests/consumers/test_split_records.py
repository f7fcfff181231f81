"""A record with more rows than a block: all of its rows are stored once, despite failures in between."""

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from consumers import blocks, loop
from consumers.assemble import assemble_loop, ignore_step
from consumers.chunk import Chunk
from consumers.insert_chunk import insert_chunk
from consumers.transforms.otlp import shared_columns, topic
from consumers.transforms.otlp.topic import logs_topic, metrics_topic
from pipeline_contracts import topics
from pipeline_contracts.errors import RowsRefused, StorageUnavailable
from pipeline_contracts.otlp.records import OtlpMeta, encode_otlp_meta
from pipeline_contracts.records import Position
from pipeline_contracts.settings import Settings
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from storage_backends.column_store.interface import ColumnStore, Lines
from storage_backends.event_log.sqlite import SqliteEventLog, open_sqlite_log
from storage_backends.event_log.sqlite_consumer import SqliteLogConsumer
from tests.otlp.requests import attribute, logs, metrics
from wiring.embedded.dead_letters import list_dead_letters

RECEIVED_MS = time.time_ns() // 1_000_000
LOGS = "pharos.otel_logs"
_SHARED = 1000


class FaultyStore:
    """The real store; an insert may fail before or after it is stored, be refused, or be dropped because of its
    token."""

    def __init__(self, store: ColumnStore) -> None:
        self._store = store
        self.tokens: list[str] = []
        self.sizes: list[int] = []
        self.fail_before: int | None = None
        self.fail_after: int | None = None
        self.refuse: bytes | None = None

    async def insert(self, table: str, lines: Lines, rows: int, token: str, before: int = 0) -> None:
        number = len(self.tokens)
        self.tokens.append(token)
        self.sizes.append(len(lines))
        if self.refuse is not None and self.refuse in lines:
            raise RowsRefused("these rows are refused")
        if number == self.fail_before:
            raise StorageUnavailable("away")
        await self._store.insert(table, lines, rows, token, before)
        if number == self.fail_after:
            raise StorageUnavailable("away")

    async def query(self, sql: str, parameters: Any = None) -> Any:
        return await self._store.query(sql, parameters)

    async def command(self, sql: str, parameters: Any = None) -> None:
        await self._store.command(sql, parameters)

    async def close(self) -> None:
        return None


class Split:
    """A log with records that are split, and their consumer."""

    def __init__(self, path: Path, log: SqliteEventLog, store: ChdbColumnStore) -> None:
        self.path = path
        self.log = log
        self.real = store
        self.store = FaultyStore(store)
        self.environment = f"env_{uuid.uuid4().hex}"

    async def append(self, body: Any, records: int, to: str = topics.LOGS) -> None:
        meta = OtlpMeta("acc", "prj", self.environment, RECEIVED_MS, records)
        await self.log.append(to, b"0", encode_otlp_meta(meta), json.dumps(body).encode())

    async def consume(self, transform: topic.OtlpTopic | None = None) -> None:
        transform = transform or logs_topic()
        worker = assemble_loop(
            Settings(chunk_seconds=0.01),
            transform,
            consumer=SqliteLogConsumer(self.log, "group", transform.topic),
            log=self.log,
            store=self.store,
            on_step=ignore_step,
        )
        worker.draining = True
        await asyncio.wait_for(worker.run(), 60)

    async def stored(self, table: str = LOGS, column: str = "Body") -> list[str]:
        sql = f"SELECT {column} FROM {table} WHERE EnvironmentId = {{env:String}} ORDER BY {column}"
        return [row[0] for row in (await self.real.query(sql, {"env": self.environment})).rows]


@pytest.fixture
async def split(
    tmp_path: Path, column_store: ChdbColumnStore, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Split]:
    """Five rows of a thousand shared bytes form a piece, ten rows form a block, and twelve rows fit into memory."""
    monkeypatch.setattr(shared_columns, "PIECE_BYTES", 7 * _SHARED)
    monkeypatch.setattr(blocks, "MAX_GENERATED_BYTES", 14 * _SHARED)
    monkeypatch.setattr(topic, "_MAX_BUFFERED_BYTES", 16 * _SHARED)
    monkeypatch.setattr(loop, "_FIRST_PAUSE", 0.0)
    path = tmp_path / "log.sqlite"
    log = await open_sqlite_log(path, 10**8)
    yield Split(path, log, column_store)
    await log.close()


def large_request(begin: int, count: int) -> Any:
    """Return log records that share an attribute, in two scopes."""
    records = [{"body": {"stringValue": f"{n:03d}"}} for n in range(begin, begin + count)]
    body = logs(*records[: count // 3])
    of_resource = body["resourceLogs"][0]
    of_resource["resource"] = {"attributes": [attribute("a", stringValue="x" * _SHARED)]}
    of_resource["scopeLogs"].append({"logRecords": records[count // 3 :]})
    return body


def numbers(count: int) -> list[str]:
    return [f"{n:03d}" for n in range(count)]


async def test_all_rows_are_stored_in_blocks_of_bounded_size(split: Split) -> None:
    await split.append(large_request(0, 3), 3)
    await split.append(large_request(3, 40), 40)
    await split.append(large_request(43, 2), 2)
    await split.consume()
    assert await split.stored() == numbers(45)
    assert len(split.store.sizes) > 3
    assert max(split.store.sizes) <= 14 * _SHARED
    assert list_dead_letters(split.path, topics.LOGS) == []


@pytest.mark.parametrize("fault", ["fail_before", "fail_after"])
async def test_a_fault_at_each_block_loses_and_repeats_no_rows(split: Split, fault: str) -> None:
    """The chunk may have been tried before, or not."""
    await split.append(large_request(0, 40), 40)
    await split.consume()
    count = 40
    blocks_of_a_chunk = len(split.store.tokens)
    assert blocks_of_a_chunk >= 4
    for is_planned in (False, True):
        for number in range(blocks_of_a_chunk):
            await split.append(large_request(count, 40), 40)
            count += 40
            if is_planned:
                offset = count // 40 - 1
                await SqliteLogConsumer(split.log, "group", topics.LOGS).commit(
                    0, Position(offset, offset + 1)
                )
            split.store.tokens.clear()
            split.store.fail_before = split.store.fail_after = None
            setattr(split.store, fault, number)
            await split.consume()
    assert await split.stored() == numbers(count)


async def test_a_known_token_without_its_rows_at_each_block_loses_no_rows(split: Split) -> None:
    """The engine was killed between writing a block's token and writing its part."""
    await split.append(large_request(0, 40), 40)
    await split.consume()
    tokens = list(split.store.tokens)
    elsewhere = {"EnvironmentId": "elsewhere", "ReceivedAt": RECEIVED_MS / 1000, "log": "x"}
    for number, token in enumerate(tokens, 1):
        known = token.replace("/0-1/", f"/{number}-{number + 1}/").replace("/0+", f"/{number}+")
        await split.real.insert(LOGS, json.dumps(elsewhere).encode() + b"\n", 1, known)
        await split.append(large_request(40 * number, 40), 40)
        await SqliteLogConsumer(split.log, "group", topics.LOGS).commit(0, Position(number, number + 1))
        split.store.tokens.clear()
        await split.consume()
        assert known in split.store.tokens
    assert await split.stored() == numbers(40 * (len(tokens) + 1))


async def test_a_record_that_was_split_with_other_limits_is_completed(
    split: Split, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A consumer with other limits has stored some of its blocks."""
    await split.append(large_request(0, 40), 40)
    consumer = SqliteLogConsumer(split.log, "group", topics.LOGS)
    records = await consumer.read(0, 0, 1, 10**6, 0)
    chunk = Chunk(f"{topics.LOGS}/{split.log.log_id}/0", 0, 1, records)
    transform = logs_topic()
    tables = (await transform.make_rows(chunk, split.store)).tables
    split.store.fail_before = 2
    with pytest.raises(StorageUnavailable):
        await insert_chunk(split.store, chunk, tables, transform, tried_before=False, on_step=ignore_step)
    before = await split.stored()
    assert 0 < len(before) < 40
    split.store.fail_before = None
    monkeypatch.setattr(shared_columns, "PIECE_BYTES", 4 * _SHARED)
    monkeypatch.setattr(blocks, "MAX_GENERATED_BYTES", 4 * _SHARED)
    await split.consume()
    assert await split.stored() == numbers(40)


async def test_no_rows_are_stored_after_a_refused_block_of_a_record(split: Split) -> None:
    await split.append(large_request(0, 40), 40)
    await split.append(large_request(40, 3), 3)
    split.store.refuse = b'"Body":"020"'
    await split.consume()
    stored = await split.stored()
    assert stored == [*numbers(len(stored) - 3), "040", "041", "042"]
    assert 0 < len(stored) - 3 <= 20
    (letter,) = list_dead_letters(split.path, topics.LOGS)
    assert letter.reason == f"these rows are refused The {len(stored) - 3} rows before them are stored."


async def test_data_points_of_several_tables_are_split(split: Split) -> None:
    kinds = ("gauge", "sum")
    body = metrics(
        *[
            {
                "name": f"{n:03d}",
                "description": "x" * _SHARED,
                kinds[n % 2]: {"dataPoints": [{"timeUnixNano": "1", "asInt": "1"}]},
            }
            for n in range(60)
        ]
    )
    await split.append(body, 60, topics.METRICS)
    await split.consume(metrics_topic())
    for remainder, kind in enumerate(kinds):
        assert await split.stored(f"pharos.otel_metrics_{kind}", "MetricName") == numbers(60)[remainder::2]
    assert len(split.store.sizes) > 2
    assert max(split.store.sizes) <= 14 * _SHARED
