"""The table of exceptions after a consumer was killed between the two parts of its insert."""

import json
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest

from analytics_queries.refill_exceptions import _VIEWS, TABLES, refill_exceptions
from consumers.assemble import TRANSFORMS
from consumers.chunk import Chunk, RecordRows
from consumers.insert_chunk import insert_chunk
from storage_backends.column_store.apply_schema import apply_schema
from storage_backends.column_store.chdb_embedded import ChdbColumnStore
from storage_backends.column_store.clickhouse_server import open_clickhouse_server
from storage_backends.column_store.interface import ColumnStore

AT = "2099-11-20T21:31:54Z"
_TRANSFORMS = {"telemetry_events": "telemetry", "otel_traces": "traces", "otel_logs": "logs"}


def event(log: str, offset: int, title: str) -> dict[str, Any]:
    row = {"environment_id": log, "type": "exception", "timestamp": AT, "received_at": AT, "title": title}
    return {**row, "log": log, "log_offset": offset}


def span(log: str, offset: int, title: str) -> dict[str, Any]:
    row = {"EnvironmentId": log, "Timestamp": AT, "ReceivedAt": AT, "TraceId": "0a" * 16, "SpanId": title}
    events = {
        "Events.Timestamp": [AT, AT],
        "Events.Name": ["cache miss", "exception"],
        "Events.Attributes": [{}, {"exception.message": title}],
    }
    return {**row, **events, "log": log, "log_offset": offset}


def record(log: str, offset: int, title: str) -> dict[str, Any]:
    row = {"EnvironmentId": log, "Timestamp": AT, "ReceivedAt": AT, "Body": title}
    return {**row, "LogAttributes": {"exception.type": "KeyError"}, "log": log, "log_offset": offset}


@pytest.fixture(params=["embedded", "server"])
async def store(
    request: pytest.FixtureRequest, column_store: ChdbColumnStore, clickhouse_url: str
) -> AsyncIterator[ColumnStore]:
    if request.param == "embedded":
        yield column_store
        return
    server = await open_clickhouse_server(clickhouse_url)
    await apply_schema(server)
    yield server
    await server.close()


async def _on_step(step: str) -> None:
    """Do nothing between the steps."""


@pytest.mark.parametrize(("table", "make"), list(zip(TABLES, (event, span, record), strict=True)))
async def test_a_retried_chunk_completes_the_exceptions(store: ColumnStore, table: str, make: Any) -> None:
    log = secrets.token_hex(8)
    titles = ("lost", "kept")
    rows = [make(log, offset, title) for offset, title in enumerate(titles)]
    parts = [RecordRows(offset, json.dumps(row).encode() + b"\n", 1) for offset, row in enumerate(rows)]
    transform = TRANSFORMS[_TRANSFORMS[table.removeprefix("pharos.")]]()

    async def insert(*, tried_before: bool) -> list[str]:
        await insert_chunk(
            store,
            Chunk(log, 0, 2, ()),
            {table: parts},
            transform,
            tried_before=tried_before,
            on_step=_on_step,
        )
        return await messages()

    async def messages() -> list[str]:
        sql = "SELECT message FROM pharos.exceptions WHERE log = {log:String}"
        return sorted(row[0] for row in (await store.query(sql, {"log": log})).rows)

    # The state after a kill between the part of the table and the part of its view: without the view, nothing is added.
    # Deleting rows would leave it too, but takes a minute in a full run, after what other tests have stored.
    view = f"pharos.{_VIEWS[table]}_mv"
    await store.command(f"DETACH TABLE {view}")
    try:
        assert await insert(tried_before=False) == []
    finally:
        await store.command(f"ATTACH TABLE {view}")
    await refill_exceptions(store, table, log, 1, 2)
    assert await messages() == ["kept"]
    for _ in range(2):
        assert await insert(tried_before=True) == ["kept", "lost"]
    # The statement ignores other records.
    await refill_exceptions(store, table, log, 2, 9)
    assert await messages() == ["kept", "lost"]


async def test_views_and_materialized_views_have_the_same_queries(column_store: ChdbColumnStore) -> None:
    sql = "SELECT name, as_select FROM system.tables WHERE database = 'pharos' AND name LIKE 'exceptions\\_of\\_%'"
    queries = dict((await column_store.query(sql)).rows)
    assert len(queries) == 6
    for name, query in queries.items():
        assert queries[name.removesuffix("_mv")] == query


async def test_a_span_of_many_exceptions_becomes_no_large_block(column_store: ChdbColumnStore) -> None:
    """Its texts are copied to each of its exceptions: 4 MB times 20,000 would crash the consumers permanently."""
    log, long = secrets.token_hex(8), "u" * 4_000_000
    events = {
        "Events.Timestamp": [AT] * 20_000,
        "Events.Name": ["exception"] * 20_000,
        "Events.Attributes": [{"exception.type": "KeyError"}] * 20_000,
    }
    texts = {
        "ServiceName": long,
        "SpanAttributes": {"user.id": long},
        "ResourceAttributes": {"service.version": long},
    }
    rows = {
        "pharos.otel_traces": {**span(log, 0, "a"), **events, **texts},
        "pharos.otel_logs": {
            **record(log, 1, "b"),
            **texts,
            "LogAttributes": {"exception.type": "KeyError", "user.id": long},
        },
        "pharos.telemetry_events": {
            **event(log, 2, "c"),
            "attributes": json.dumps({"user.id": long, "service.version": long}),
        },
    }
    for table, row in rows.items():
        await column_store.insert(table, json.dumps(row).encode() + b"\n", 1, secrets.token_hex(8))
        await refill_exceptions(column_store, table, log, 0, 9)
    sql = (
        "SELECT source, count(), max(length(service)), max(length(version)), max(length(user)) "
        "FROM pharos.exceptions WHERE log = {log:String} GROUP BY source ORDER BY source"
    )
    assert (await column_store.query(sql, {"log": log})).rows == [
        ["event", 1, 0, 255, 255],
        ["log", 1, 255, 255, 255],
        ["span", 100, 255, 255, 255],
    ]
