"""The loop on the real log and the real column store, with faults in between."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from analytics_queries.receipt_status import ReceiptStatus, receipt_status
from consumers.assemble import ignore_step
from consumers.chunk import ChunkLimits
from consumers.dead_letters import decode_dead_letter
from consumers.insert_lease import StoreClock
from consumers.loop import ConsumerLoop
from consumers.metrics import ConsumerMetrics
from consumers.transforms.telemetry_topic import EVENTS, RECEIPTS, TelemetryTopic
from pipeline_contracts import topics
from pipeline_contracts.errors import RowsRefused, StorageUnavailable
from pipeline_contracts.records import Position
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from storage_backends.column_store.interface import ColumnStore, Lines
from storage_backends.event_log.sqlite import SqliteEventLog, open_sqlite_log
from storage_backends.event_log.sqlite_consumer import SqliteLogConsumer
from tests.support.telemetry_records import RECEIVED_MS, append_batch
from wiring.embedded.dead_letters import list_dead_letters, replay_dead_letters

DAY_MS = 86_400_000
# In the table partition of most batches here: the engine keeps separate tokens for each partition.
_ROW_OF_ANOTHER_ENVIRONMENT = (
    json.dumps({"environment_id": "env_elsewhere", "received_at": RECEIVED_MS / 1000}).encode() + b"\n"
)


class FaultyStore:
    """The real store with faults at selected inserts."""

    def __init__(self, store: ColumnStore) -> None:
        self._store = store
        self.before: list[Exception | None] = []
        self.after: list[Exception | None] = []
        self.inserts: list[tuple[str, int, str]] = []
        self.refuse: Callable[[bytes], bool] = lambda lines: False

    async def insert(self, table: str, lines: Lines, rows: int, token: str, before: int = 0) -> None:
        self.inserts.append((table, rows, token))
        if self.before and (fault := self.before.pop(0)) is not None:
            raise fault
        if table == EVENTS and self.refuse(lines):
            raise RowsRefused("these rows are refused")
        await self._store.insert(table, lines, rows, token, before)
        if self.after and (fault := self.after.pop(0)) is not None:
            raise fault

    async def query(self, sql: str, parameters: Any = None) -> Any:
        return await self._store.query(sql, parameters)

    async def command(self, sql: str, parameters: Mapping[str, Any] | None = None) -> None:
        await self._store.command(sql, parameters)

    async def close(self) -> None:
        return None


class ClaimedBefore(SqliteLogConsumer):
    """Records are appended after its claim, so no other consumer can have inserted them."""

    async def end(self, partition: int) -> int:
        return 0


class Bench:
    """A log, a store and a loop, with a new environment."""

    def __init__(self, log: SqliteEventLog, path: Path, real: ChdbColumnStore) -> None:
        self.log = log
        self.path = path
        self.real = real
        self.store = FaultyStore(real)
        self.environment = f"env_{uuid.uuid4().hex}"
        self.limits = ChunkLimits(rows=1000, bytes=10**6, seconds=0.02)
        self.metrics = ConsumerMetrics(topics.TELEMETRY)
        self.consumer = SqliteLogConsumer(log, "group", topics.TELEMETRY)

    async def send(self, batch: str, ids: list[str], **options: Any) -> str:
        return await append_batch(
            self.log, self.environment, batch, [{"type": "log", "id": i} for i in ids], **options
        )

    async def consume(self) -> None:
        """Run a loop until no record is left. Fails after a minute."""
        stop = asyncio.Event()
        loop = ConsumerLoop(
            consumer=self.consumer,
            log=self.log,
            store=self.store,
            clock=StoreClock(self.store),
            transform=TelemetryTopic(),
            limits=self.limits,
            metrics=self.metrics,
            stop=stop,
            on_step=ignore_step,
            draining=True,
        )
        limit = asyncio.get_running_loop().call_later(60, stop.set)
        await loop.run()
        limit.cancel()
        assert not stop.is_set(), "records are left"

    async def stored(self) -> list[str]:
        sql = f"SELECT id FROM {EVENTS} WHERE environment_id = {{env:String}} ORDER BY log_offset, position"
        return [row[0] for row in (await self.real.query(sql, {"env": self.environment})).rows]

    async def receipt(self, name: str) -> ReceiptStatus:
        status = await receipt_status(self.real, self.environment, name)
        assert status is not None
        return status


@pytest.fixture
async def bench(tmp_path: Path, column_store: ChdbColumnStore) -> AsyncIterator[Bench]:
    path = tmp_path / "log.sqlite"
    log = await open_sqlite_log(path, 10**8)
    yield Bench(log, path, column_store)
    await log.close()


async def test_batches_are_stored_once_and_removed_from_the_log(bench: Bench) -> None:
    first = await bench.send("1", ["a", "b"])
    await bench.send("2", ["c"])
    await bench.consume()
    assert await bench.stored() == ["a", "b", "c"]
    receipt = await bench.receipt(first)
    assert (receipt.status, receipt.received, receipt.stored, receipt.duplicates) == ("stored", 2, 2, 0)
    assert bench.log.stored_bytes() == 0


async def test_duplicates_in_the_same_chunk_and_in_a_later_one_are_counted(bench: Bench) -> None:
    name = await bench.send("1", ["a", "b"])
    await bench.send("1", ["a", "b"])
    await bench.consume()
    await bench.send("1", ["a", "b"])
    await bench.consume()
    assert await bench.stored() == ["a", "b"]
    receipt = await bench.receipt(name)
    assert (receipt.status, receipt.received, receipt.stored, receipt.duplicates) == ("stored", 2, 2, 4)
    assert bench.metrics.duplicates == 2


async def test_the_same_batch_id_of_another_environment_is_another_batch(bench: Bench) -> None:
    await bench.send("1", ["a"])
    other = Bench(bench.log, bench.path, bench.real)
    await other.send("1", ["b"])
    await bench.consume()
    assert (await bench.stored(), await other.stored()) == (["a"], ["b"])


@pytest.mark.parametrize("at", ["before", "after"])
@pytest.mark.parametrize("insert", [0, 1])
async def test_a_chunk_is_stored_once_after_the_store_was_unavailable(
    bench: Bench, at: str, insert: int
) -> None:
    faults: list[Exception | None] = [None] * insert + [StorageUnavailable("away")]
    setattr(bench.store, at, faults)
    name = await bench.send("1", ["a", "b"])
    await bench.consume()
    assert await bench.stored() == ["a", "b"]
    receipt = await bench.receipt(name)
    assert (receipt.stored, receipt.duplicates) == (2, 0)
    assert bench.metrics.retries == 1


async def test_an_open_plan_is_finished_with_its_own_bounds(bench: Bench) -> None:
    for n in range(5):
        await bench.send(str(n), [str(n)])
    consumer = SqliteLogConsumer(bench.log, "group", topics.TELEMETRY)
    await consumer.commit(0, Position(0, 3))
    await bench.consume()
    assert await bench.stored() == ["0", "1", "2", "3", "4"]
    inserts = [(token.split("/")[3], rows) for table, rows, token in bench.store.inserts if table == EVENTS]
    assert inserts == [("0-3", 3), ("3-5", 2)]
    assert bench.metrics.replayed_chunks == 1


async def test_only_the_missing_rows_of_a_partly_stored_chunk_are_inserted(bench: Bench) -> None:
    """Another attempt stored the first record under a token that is forgotten."""
    for n in range(3):
        await bench.send(str(n), [str(n)])
    bench.limits = ChunkLimits(rows=1, bytes=10**6, seconds=0.02)
    bench.store.before = [None, StorageUnavailable("away")]
    stop = asyncio.create_task(bench.consume())
    await stop
    consumer = SqliteLogConsumer(bench.log, "group", topics.TELEMETRY)
    for n in range(3):
        await bench.send(f"again {n}", [f"again {n}"])
    await bench.real.insert(EVENTS, await _line_of(bench, 4), 1, uuid.uuid4().hex)
    await consumer.commit(0, Position(3, 6))
    await bench.consume()
    assert sorted(await bench.stored()) == ["0", "1", "2", "again 0", "again 1", "again 2"]


async def _line_of(bench: Bench, offset: int) -> bytes:
    consumer = SqliteLogConsumer(bench.log, "group", topics.TELEMETRY)
    (record,) = await consumer.read(0, offset, offset + 1, 10**6, 0)
    from consumers.transforms.telemetry_rows import telemetry_rows
    from pipeline_contracts.records import decode_meta

    log = f"{topics.TELEMETRY}/{bench.log.log_id}/0"
    return telemetry_rows(record.value, decode_meta(record.meta), record.key.decode(), log, offset).lines


async def test_a_known_token_without_its_rows_does_not_lose_the_chunk(bench: Bench) -> None:
    """The engine was killed between writing the token and writing the part."""
    await bench.send("1", ["a", "b"])
    token = f"{topics.TELEMETRY}/{bench.log.log_id}/0/0-1/{EVENTS}"
    await bench.real.insert(EVENTS, _ROW_OF_ANOTHER_ENVIRONMENT, 1, token)
    await SqliteLogConsumer(bench.log, "group", topics.TELEMETRY).commit(0, Position(0, 1))
    await bench.consume()
    assert await bench.stored() == ["a", "b"]


async def test_a_retried_insert_checks_the_table_despite_a_known_token(bench: Bench) -> None:
    await bench.send("1", ["a", "b"])
    token = f"{topics.TELEMETRY}/{bench.log.log_id}/0/0-1/{EVENTS}"
    await bench.real.insert(EVENTS, _ROW_OF_ANOTHER_ENVIRONMENT, 1, token)
    # Only the failed insert makes the loop check the table.
    bench.consumer = ClaimedBefore(bench.log, "group", topics.TELEMETRY)
    bench.store.before = [StorageUnavailable("away")]
    await bench.consume()
    assert bench.metrics.retries == 1
    assert await bench.stored() == ["a", "b"]


async def test_an_unreadable_body_becomes_a_dead_letter_and_a_failed_receipt(bench: Bench) -> None:
    bad = await bench.send("bad", ["x"], body=b'{"events": [{"type": "nonsense"}]}')
    await bench.send("good", ["a"])
    await bench.consume()
    assert await bench.stored() == ["a"]
    receipt = await bench.receipt(bad)
    assert (receipt.status, receipt.stored) == ("failed", 0)
    assert "cannot be read" in receipt.errors[0]
    (letter,) = list_dead_letters(bench.path, topics.TELEMETRY)
    assert letter.body == b'{"events": [{"type": "nonsense"}]}'


async def test_a_batch_is_stored_after_its_first_copy_was_unreadable(bench: Bench) -> None:
    for batch in ("same chunk", "later chunk"):
        await bench.send(batch, ["x"], body=b"{")
    names = [await bench.send("same chunk", ["a"])]
    await bench.consume()
    names.append(await bench.send("later chunk", ["b"]))
    await bench.consume()
    assert await bench.stored() == ["a", "b"]
    assert [(await bench.receipt(name)).status for name in names] == ["stored", "stored"]


async def test_a_record_with_an_unreadable_head_becomes_a_dead_letter(bench: Bench) -> None:
    await bench.log.append(topics.TELEMETRY, b"\xff", b"\xff", b"{}")
    await bench.send("good", ["a"])
    await bench.consume()
    assert await bench.stored() == ["a"]
    assert len(list_dead_letters(bench.path, topics.TELEMETRY)) == 1


async def test_refused_rows_are_isolated_by_halving_the_block(bench: Bench) -> None:
    # The loop relies on tokens alone here.
    bench.consumer = ClaimedBefore(bench.log, "group", topics.TELEMETRY)
    names = [await bench.send(str(n), [f"poison{n}" if n in (2, 6) else str(n)]) for n in range(9)]
    bench.store.refuse = lambda lines: b"poison" in lines
    await bench.consume()
    assert await bench.stored() == ["0", "1", "3", "4", "5", "7", "8"]
    statuses = [(await bench.receipt(name)).status for name in names]
    assert [n for n, status in enumerate(statuses) if status == "failed"] == [2, 6]
    assert statuses.count("stored") == 7
    assert sorted(letter.offset for letter in list_dead_letters(bench.path, topics.TELEMETRY)) == [2, 6]


async def test_replayed_dead_letters_are_stored(bench: Bench) -> None:
    name = await bench.send("1", ["poison", "b"])
    await bench.send("2", ["poison too"])
    bench.store.refuse = lambda lines: b"poison" in lines
    await bench.consume()
    first, second = list_dead_letters(bench.path, topics.TELEMETRY)
    bench.store.refuse = lambda lines: False
    assert replay_dead_letters(bench.path, topics.TELEMETRY, {first.id}) == 1
    assert [letter.offset for letter in list_dead_letters(bench.path, topics.TELEMETRY)] == [second.offset]
    await bench.consume()
    assert await bench.stored() == ["poison", "b"]
    assert (await bench.receipt(name)).status == "stored"
    assert decode_dead_letter((await _dead_letter_metas(bench))[0]).offset == second.offset


async def _dead_letter_metas(bench: Bench) -> list[bytes]:
    records = await bench.log.read_frames(topics.dead_letter_topic(topics.TELEMETRY), 0, 10**6)
    return [record.meta for record in records]


async def test_a_chunk_has_one_day_of_receipt_and_obeys_its_limits(bench: Bench) -> None:
    for n in range(4):
        await bench.send(str(n), [str(n)] * 4, received_ms=RECEIVED_MS + (n // 2) * DAY_MS)
    bench.limits = ChunkLimits(rows=1000, bytes=10**6, seconds=0.02)
    await bench.consume()
    assert [rows for table, rows, _ in bench.store.inserts if table == EVENTS] == [8, 8]
    for n in range(4):
        await bench.send(f"small {n}", [str(n)] * 4)
    bench.limits = ChunkLimits(rows=8, bytes=10**6, seconds=0.02)
    bench.store.inserts.clear()
    await bench.consume()
    assert [rows for table, rows, _ in bench.store.inserts if table == RECEIPTS] == [2, 2]
