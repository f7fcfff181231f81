"""Behaviour of only the client of a ClickHouse server: servers that stop and return, and broken connections."""

import asyncio
import contextlib
import json
import re
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from aiohttp import web

from pipeline_contracts.errors import RowsRefused, StorageUnavailable
from storage_backends.column_store.apply_schema import apply_schema, read_schema
from storage_backends.column_store.clickhouse_server import ClickHouseServer, open_clickhouse_server
from storage_backends.column_store.interface import QueryRefused
from storage_backends.column_store.replicated_schema import replicate
from tests.support.clickhouse_front import FrontServer, running_clickhouse_front
from tests.support.engines import free_port

TABLE = "pharos.telemetry_events"
SCHEMA = Path(__file__).parents[2] / "storage_backends/column_store/schema"


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrontServer]:
    """A front for this file only: it is stopped and started again. It requires a password."""
    with running_clickhouse_front(
        tmp_path_factory.mktemp("faulty-clickhouse"), password="hush-hush"
    ) as running:
        yield running


@pytest.fixture
async def server(front: FrontServer) -> AsyncIterator[ClickHouseServer]:
    opened = await open_clickhouse_server(front.url)
    await apply_schema(opened)
    yield opened
    front.set_fault("none", 0)
    await opened.close()


def rows(log: str, count: int) -> bytes:
    at = "2026-11-20T21:31:54Z"
    line = {"log": log, "log_offset": 1, "type": "log", "received_at": at, "timestamp": at}
    return b"".join(json.dumps({**line, "position": n}).encode() + b"\n" for n in range(count))


async def stored(server: ClickHouseServer, log: str) -> int:
    result = await server.query(f"SELECT count() FROM {TABLE} WHERE log = {{log:String}}", {"log": log})
    return int(result.rows[0][0])


async def test_unavailable_server_is_reported_without_the_password() -> None:
    with pytest.raises(StorageUnavailable) as told:
        await open_clickhouse_server(f"http://default:hush-hush@127.0.0.1:{free_port()}")
    assert "hush" not in str(told.value) and "127.0.0.1" in str(told.value)


async def test_wrong_password_is_a_transient_error(front: FrontServer) -> None:
    with pytest.raises(StorageUnavailable) as told:
        await open_clickhouse_server(f"http://default:wrong-one@127.0.0.1:{front.port}")
    assert "wrong-one" not in str(told.value)


@pytest.mark.parametrize("url", ["clickhouse:8123", "ftp://host", "http://", "native://h:9000"])
async def test_invalid_address_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ValueError, match="http://") as told:
        await open_clickhouse_server(url.replace("//", "//user:hush-hush@"))
    assert "hush" not in str(told.value)


async def test_client_recovers_after_an_outage(front: FrontServer, server: ClickHouseServer) -> None:
    log = uuid.uuid4().hex
    front.stop()
    with pytest.raises(StorageUnavailable):
        await server.insert(TABLE, rows(log, 3), 3, log)
    with pytest.raises(StorageUnavailable):
        await stored(server, log)
    with pytest.raises(StorageUnavailable):
        await server.command("SELECT 1")
    front.start()
    await server.insert(TABLE, rows(log, 3), 3, log)
    assert await stored(server, log) == 3


async def test_503_is_a_transient_error(front: FrontServer, server: ClickHouseServer) -> None:
    log = uuid.uuid4().hex
    front.set_fault("503", 600)
    with pytest.raises(StorageUnavailable):
        await server.insert(TABLE, rows(log, 3), 3, log)
    with pytest.raises(StorageUnavailable):
        await stored(server, log)
    front.set_fault("none", 0)
    assert await stored(server, log) == 0


@pytest.mark.parametrize(("mode", "there"), [("cut_before", 0), ("cut_after", 7)])
async def test_interrupted_insert_has_an_unknown_outcome_and_is_sent_once(
    front: FrontServer, server: ClickHouseServer, mode: str, there: int
) -> None:
    log = uuid.uuid4().hex
    front.set_fault(mode, 600)
    with pytest.raises(StorageUnavailable):
        await server.insert(TABLE, rows(log, 7), 7, log)
    # Only the consumers repeat an insert, because only they can do this safely.
    assert front.fault_hits() == 1
    assert await stored(server, log) == there
    front.set_fault("none", 0)
    await server.insert(TABLE, rows(log, 7), 7, log)
    assert await stored(server, log) == 7


async def test_insert_that_times_out_has_an_unknown_outcome(
    front: FrontServer, server: ClickHouseServer
) -> None:
    log = uuid.uuid4().hex
    hasty = await hastily_opened(front)
    front.set_fault("held", 600)
    # The front holds the insert while a client waits for the response.
    async with asyncio.timeout(60):
        with pytest.raises(StorageUnavailable):
            await hasty.insert(TABLE, rows(log, 7), 7, log)
    await hasty.close()
    assert (front.fault_hits(), front.held_inserts()) == (1, 1)
    assert await stored(server, log) == 0
    front.set_fault("none", 0)
    front.release()
    async with asyncio.timeout(60):
        while await stored(server, log) == 0:
            await asyncio.sleep(0.1)
    await server.insert(TABLE, rows(log, 7), 7, log)
    assert await stored(server, log) == 7


async def hastily_opened(front: FrontServer) -> ClickHouseServer:
    """Opens a store with a statement timeout of one second. Opening may take several statements."""
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(StorageUnavailable):
                return await open_clickhouse_server(front.url, statement_seconds=1.0)


async def test_statements_run_run_both(server: ClickHouseServer) -> None:
    results = await asyncio.gather(
        *(server.query("SELECT sleep(0.2), {n:Int64}", {"n": n}) for n in range(8))
    )
    assert [r.rows[0][1] for r in results] == list(range(8))


async def test_requests_and_the_meaning_of_responses() -> None:
    """A server with scripted responses, for cases that the engine itself never shows."""
    asked: list[web.BaseRequest] = []
    bodies: list[bytes] = []
    answer: dict[str, object] = {}

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        bodies.append(await request.read())
        asked.append(request)
        if request.query.get("insert_deduplication_token"):
            return web.Response(**answer)  # type: ignore[arg-type]
        return web.Response(body=b"26.9.1.1\tUTC\n" if b"version" in bodies[-1] else b"")

    runner = web.ServerRunner(web.Server(handle, access_log=None, auto_decompress=False))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        client = await _connected(runner.addresses[0][1])
        lines = rows("log", 1000)
        answer |= {"status": 200}
        await client.insert(TABLE, lines, 1000, "the token")
        sent, body = asked[-1], bodies[-1]
        assert sent.query["query"] == f"INSERT INTO {TABLE} FORMAT JSONEachRow"
        assert sent.query["insert_deduplication_token"] == "the token"
        assert sent.query["wait_end_of_query"] == "1"
        assert sent.headers["Content-Encoding"] == "zstd" and len(body) < len(lines) / 5
        assert not any("session" in name for name in sent.query)

        for status, headers, text, expected in (
            (400, {"X-ClickHouse-Exception-Code": "27"}, "Code: 27. DB::Exception: no", RowsRefused),
            # A response that begins as a success and ends with an error.
            (200, {"X-ClickHouse-Exception-Code": "241"}, "Code: 241. DB::Exception: no", StorageUnavailable),
            (500, {"X-ClickHouse-Exception-Code": "252"}, "Code: 252. DB::Exception: no", StorageUnavailable),
            (500, {}, "", StorageUnavailable),
            (429, {}, "slow down", StorageUnavailable),
            (502, {}, "<html>", StorageUnavailable),
        ):
            answer.clear()
            answer |= {"status": status, "headers": headers, "text": text}
            before = len(asked)
            with pytest.raises(expected):
                await client.insert(TABLE, lines, 1000, "token")
            assert len(asked) == before + 1, status
        await client.close()
    finally:
        await runner.cleanup()


async def _connected(port: int) -> ClickHouseServer:
    return await open_clickhouse_server(f"http://u:p@127.0.0.1:{port}", cluster=None)


def test_the_schema_of_a_cluster_replicates() -> None:
    for path in SCHEMA.glob("*.sql"):
        made = replicate(path.read_text(), "main-1")
        assert "ON CLUSTER 'main-1'" in made
        is_replicated = re.search(r"ENGINE = Replicated(Replacing)?MergeTree\n", made) is not None
        assert is_replicated == ("CREATE TABLE" in made)
        assert not re.search(r"ENGINE = (?!Replicated)", made)
        assert "non_replicated" not in made
        for statement in read_schema(path):
            # Rows are inserted once, and the replicas fetch them.
            expected = 0 if statement.startswith("INSERT") else 1
            assert replicate(statement, "main-1").count("ON CLUSTER 'main-1'") == expected, statement
    made = replicate("CREATE DATABASE IF NOT EXISTS pharos", "c")
    assert made == "CREATE DATABASE IF NOT EXISTS pharos ON CLUSTER 'c'"
    for name in ("a b", "a'b", "", "a;DROP", "x" * 101):
        with pytest.raises(ValueError, match="CLUSTER"):
            replicate("CREATE DATABASE IF NOT EXISTS pharos", name)


async def test_wrong_query_is_reported_as_a_query_error(server: ClickHouseServer) -> None:
    with pytest.raises(QueryRefused):
        await server.query("SELECT (")
    with pytest.raises(QueryRefused):
        await server.query_json_lines("SELECT nothing FROM nowhere")
