"""OTLP requests with an identity are stored once, even if the consumer is killed between their rows and the receipt."""

import secrets

import msgspec
import pytest

from consumers.assemble import TRANSFORMS
from consumers.chunk import Chunk, Transform
from consumers.insert_chunk import insert_chunk
from pipeline_contracts.identifiers import receipt_name
from pipeline_contracts.otlp.records import OtlpMeta, encode_otlp_meta
from pipeline_contracts.records import LogRecord
from storage_backends.column_store.chdb_embedded import ChdbColumnStore

_RECEIPTS = "pharos.ingest_receipts"
_BODY = b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"hi"}},{}]}]}]}'


class _Killed(Exception):
    pass


class _Consumer:
    """Inserts chunks of one partition."""

    def __init__(self, store: ChdbColumnStore) -> None:
        self.environment = f"env_{secrets.token_hex(8)}"
        self._store = store
        self._log = secrets.token_hex(8)
        self._transform: Transform = TRANSFORMS["logs"]()

    def record(self, offset: int, batch_id: str, body: bytes = _BODY) -> LogRecord:
        meta = OtlpMeta("acc_1", "prj_1", self.environment, 4_070_908_800_000, 2, batch_id=batch_id)
        key = receipt_name(self.environment, batch_id).encode() if batch_id else b""
        return LogRecord(offset, key, encode_otlp_meta(meta), body)

    async def insert(
        self, *records: LogRecord, tried_before: bool = False, kill_before: str | None = None
    ) -> tuple[int, int]:
        """Insert a chunk of these records; return the numbers of duplicates and of dead records."""

        async def on_step(step: str) -> None:
            if step == kill_before:
                raise _Killed

        chunk = Chunk(self._log, records[0].offset, records[-1].offset + 1, records)
        rows = await self._transform.make_rows(chunk, self._store)
        await insert_chunk(
            self._store, chunk, rows.tables, self._transform, tried_before=tried_before, on_step=on_step
        )
        return rows.duplicates, len(rows.dead)

    async def stored(self) -> tuple[int, list[tuple[str, int]]]:
        """Return the number of log records, and the receipts as (outcome, records)."""
        parameters = {"environment": self.environment}
        logs = "SELECT count() FROM pharos.otel_logs WHERE EnvironmentId = {environment:String}"
        receipts = (
            "SELECT toString(outcome) AS name, received FROM pharos.ingest_receipts "
            "WHERE environment_id = {environment:String} ORDER BY name"
        )
        [(count,)] = (await self._store.query(logs, parameters)).rows
        return count, [tuple(row) for row in (await self._store.query(receipts, parameters)).rows]


async def test_repeated_requests_are_stored_once(column_store: ChdbColumnStore) -> None:
    consumer = _Consumer(column_store)
    first, anonymous = consumer.record(0, "a"), consumer.record(1, "")
    # The same request twice in a chunk, and two requests without an identity.
    assert await consumer.insert(first, anonymous, consumer.record(2, "a"), consumer.record(3, "")) == (1, 0)
    assert await consumer.insert(consumer.record(4, "a"), consumer.record(5, "b")) == (1, 0)
    assert await consumer.stored() == (
        2 * 4,
        [("duplicate", 2), ("duplicate", 2), ("stored", 2), ("stored", 2)],
    )


async def test_killed_consumer_stores_rows_and_receipt_once(column_store: ChdbColumnStore) -> None:
    consumer = _Consumer(column_store)
    records = [consumer.record(0, "a"), consumer.record(1, "a")]
    with pytest.raises(_Killed):
        await consumer.insert(*records, kill_before=f"before insert {_RECEIPTS}")
    assert await consumer.stored() == (2, [])
    for _ in range(2):
        assert await consumer.insert(*records, tried_before=True) == (1, 0)
        assert await consumer.stored() == (2, [("duplicate", 2), ("stored", 2)])


async def test_unreadable_request_gets_a_receipt(column_store: ChdbColumnStore) -> None:
    consumer = _Consumer(column_store)
    bad_head = LogRecord(1, b"\xff", msgspec.msgpack.encode(["a", "p", "e", 0, 1, "json", [], "b"]), b"{}")
    assert await consumer.insert(consumer.record(0, "a", b"{"), bad_head) == (0, 2)
    assert await consumer.stored() == (0, [("failed", 2)])
