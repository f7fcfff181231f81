"""The table of trace times after a consumer was killed between the two parts of its insert."""

import json
import secrets

from analytics_queries.refill_trace_times import refill_trace_times
from consumers.assemble import TRANSFORMS
from consumers.chunk import Chunk, RecordRows
from consumers.insert_chunk import insert_chunk
from storage_backends.column_store.chdb_embedded import ChdbColumnStore

_TABLE = "pharos.otel_traces"


async def _on_step(step: str) -> None:
    """Do nothing between the steps."""


async def test_a_retried_chunk_completes_the_times_of_its_traces(
    column_store: ChdbColumnStore,
) -> None:
    log = secrets.token_hex(8)
    lost, kept = (secrets.token_hex(16) for _ in range(2))

    def record(offset: int, trace: str, seconds: tuple[int, ...]) -> RecordRows:
        row = {"TraceId": trace, "EnvironmentId": log, "ReceivedAt": "2099-11-20T21:31:54Z", "log": log}
        spans = [{**row, "log_offset": offset, "Timestamp": f"{1795000000 + at}000000000"} for at in seconds]
        return RecordRows(offset, b"".join(json.dumps(span).encode() + b"\n" for span in spans), len(spans))

    chunk = Chunk(log, 0, 2, ())
    tables = {_TABLE: [record(0, lost, (3, 1, 2)), record(1, kept, (7,))]}
    transform = TRANSFORMS["traces"]()

    async def insert(*, tried_before: bool) -> list[tuple[str, int, int]]:
        await insert_chunk(
            column_store, chunk, tables, transform, tried_before=tried_before, on_step=_on_step
        )
        return await times()

    async def times() -> list[tuple[str, int, int]]:
        sql = (
            "SELECT TraceId, toUnixTimestamp(Start) - 1795000000, toUnixTimestamp(End) - 1795000000 "
            "FROM pharos.otel_traces_trace_id_ts WHERE EnvironmentId = {log:String}"
        )
        return sorted(tuple(row) for row in (await column_store.query(sql, {"log": log})).rows)

    complete = sorted([(lost, 1, 3), (kept, 7, 7)])
    assert await insert(tried_before=False) == complete
    assert await insert(tried_before=True) == complete
    # The state after a kill between the part of the table and the part of its view.
    await column_store.command(
        "ALTER TABLE pharos.otel_traces_trace_id_ts DELETE WHERE TraceId = {lost:String} SETTINGS mutations_sync = 1",
        {"lost": lost},
    )
    assert await times() == [(kept, 7, 7)]
    for _ in range(2):
        assert await insert(tried_before=True) == complete
    # The statement ignores other records.
    await refill_trace_times(column_store, log, 2, 9)
    assert await times() == complete
