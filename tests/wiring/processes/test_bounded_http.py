"""The control plane's HTTP server: limits of heads and connections, and problem documents for requests that are not
HTTP."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from control_api.app import build_control_app
from control_domain.database.engine import open_engine, open_sessions
from ingest_edge.http_server import ServerLimits
from pipeline_contracts import open_connections
from pipeline_contracts.client_address import ClientAddresses
from tests.support.unread_responses import callers_that_never_read, listen_with_small_buffers
from tests.support.waits import poll_until
from wiring.processes.bounded_http import BoundedProtocol
from wiring.processes.control import control_server

_NOTHING = cast(Any, None)
_LIMITS = ServerLimits(4096, 600.0, 100, ClientAddresses(()))
_DOCUMENT = b"GET /api/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
_SCHEMA = b"GET /api/schemas/workflow-1.json HTTP/1.1\r\nHost: x\r\n\r\n"
ACCOUNT = b"GET /api/v1/account HTTP/1.1\r\nHost: x\r\n"


@contextlib.asynccontextmanager
async def serving(limits: ServerLimits = _LIMITS) -> AsyncIterator[int]:
    """Serve a control plane without a database; yield its port."""
    sessions = open_sessions(open_engine("sqlite+aiosqlite://"))
    app = build_control_app(sessions, _NOTHING, b"receipts", _NOTHING, git_app_secret="s")
    server = control_server(app, limits)
    with listen_with_small_buffers() as listening:
        task = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield listening.getsockname()[1]
        finally:
            await server.end(task)
            await app.state.log_streams.close()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[BoundedProtocol]:
    """The connections that the server has accepted."""
    connections: list[BoundedProtocol] = []
    connect = BoundedProtocol.connection_made

    def note(connection: BoundedProtocol, transport: asyncio.Transport) -> None:
        connections.append(connection)
        connect(connection, transport)

    monkeypatch.setattr(BoundedProtocol, "connection_made", note)
    return connections


@contextlib.asynccontextmanager
async def connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def _read(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return int(head[0].split(" ")[1]), headers, body


async def _ask(port: int, sent: bytes) -> tuple[int, dict[str, str], bytes]:
    async with connected(port) as (reader, writer):
        writer.write(sent)
        return await _read(reader)


async def test_unreadable_and_oversized_requests_are_problems() -> None:
    padding = b"X: " + b"x" * 1000 + b"\r\n"
    async with serving() as port:
        for sent, status, slug in (
            (ACCOUNT + padding * 3 + b"\r\n", 401, "invalid-credential"),
            (ACCOUNT + padding * 5, 431, "head-too-large"),
            (b"GARBAGE\r\n\r\n", 400, "malformed-request"),
            (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n", 400, "malformed-request"),
            (
                b"POST /api/git-app/webhook HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                400,
                "malformed-request",
            ),
            (b"FOO /api/v1/account HTTP/1.1\r\nHost: x\r\n\r\n", 405, "method-not-allowed"),
        ):
            answered, headers, body = await _ask(port, sent)
            assert (answered, json.loads(body)["type"]) == (status, f"/problems/{slug}")
            assert headers["content-type"] == "application/problem+json"
            assert headers["x-request-id"]
            assert "server" not in headers
            assert headers.get("allow") == ("GET, HEAD, PATCH" if status == 405 else None)


async def test_late_head_is_refused_and_idle_connection_stays_open() -> None:
    async with (
        serving(ServerLimits(4096, 0.1, 100, ClientAddresses(()))) as port,
        connected(port) as fresh,
        connected(port) as idle,
        connected(port) as late,
    ):
        idle[1].write(ACCOUNT + b"\r\n")
        assert (await _read(idle[0]))[0] == 401
        late[1].write(ACCOUNT + b"\r\n" + ACCOUNT)
        assert (await _read(late[0]))[0] == 401
        async with asyncio.timeout(60):
            status, _, body = await _read(late[0])
            assert (status, json.loads(body)["type"]) == (408, "/problems/request-timeout")
            assert await late[0].read() == b""
        for reader, writer in (fresh, idle):
            writer.write(ACCOUNT + b"\r\n")
            assert (await _read(reader))[0] == 401


async def test_excess_connection_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_connections, "is_loopback", lambda _address: False)
    async with serving(ServerLimits(4096, 600.0, 1, ClientAddresses(()))) as port:
        async with connected(port) as (reader, writer):
            writer.write(ACCOUNT + b"\r\n")
            assert (await _read(reader))[0] == 401
            status, headers, _ = await _ask(port, b"")
            assert (status, headers["retry-after"]) == (503, "1")
        async with asyncio.timeout(60):
            while (await _ask(port, ACCOUNT + b"\r\n"))[0] != 401:
                await asyncio.sleep(0.005)


async def test_idle_local_connections_are_closed_for_new_ones() -> None:
    limits = ServerLimits(4096, 600.0, 100, ClientAddresses(()), loopback_connections=3)
    async with serving(limits) as port, contextlib.AsyncExitStack() as stack:
        silent = [await stack.enter_async_context(connected(port)) for _ in range(3)]
        assert (await _ask(port, ACCOUNT + b"\r\n"))[0] == 401
        async with asyncio.timeout(60):
            assert await silent[0][0].read() == b""
        silent[2][1].write(ACCOUNT + b"\r\n")
        assert (await _read(silent[2][0]))[0] == 401


async def test_head_expect_and_disconnect(caplog: pytest.LogCaptureFixture) -> None:
    webhook = b"POST /api/git-app/webhook HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: "
    path = b"/api/schemas/workflow-1.json HTTP/1.1\r\nHost: x\r\n\r\n"
    async with serving() as port:
        async with connected(port) as (reader, writer):
            writer.write(b"HEAD " + path + b"GET " + path)
            head = await reader.readuntil(b"\r\n\r\n")
            status, _, body = await _read(reader)
            assert (head.split(b" ")[1], status) == (b"200", 200)
            assert b"content-length: %d\r\n" % len(body) in head
        assert (await _ask(port, webhook + b"6000000\r\n\r\n"))[0] == 413
        async with connected(port) as (reader, writer):
            writer.write(webhook + b"10\r\n\r\n")
            assert (await _read(reader))[0] == 100
            with caplog.at_level(logging.DEBUG):
                writer.write(b"half")
                writer.transport.abort()
                async with asyncio.timeout(60):
                    while not any(
                        record.getMessage() == "the caller has disconnected" for record in caplog.records
                    ):
                        await asyncio.sleep(0.005)
    assert [record for record in caplog.records if record.exc_info] == []
    assert {record.levelno for record in caplog.records} <= {logging.DEBUG, logging.INFO}


async def test_client_that_does_not_read_is_disconnected(opened: list[BoundedProtocol]) -> None:
    limits = ServerLimits(4096, 600.0, 100, ClientAddresses(()), silent_seconds=0.2)
    async with serving(limits) as port:
        for sent in (_DOCUMENT, _SCHEMA * 9):
            with callers_that_never_read(port, sent):
                await poll_until(lambda: opened and opened[-1].flow.write_paused)
                assert opened[-1].transport.get_write_buffer_size() <= 33 * 1024
                await poll_until(
                    lambda: opened[-1].transport.is_closing() and not opened[-1].server_state.connections
                )


async def test_connection_with_unsent_response_is_not_idle(opened: list[BoundedProtocol]) -> None:
    limits = ServerLimits(4096, 600.0, 100, ClientAddresses(()), loopback_connections=2)
    async with serving(limits) as port:
        with callers_that_never_read(port, _SCHEMA * 9, 2):
            await poll_until(lambda: len(opened) == 2 and all(one.flow.write_paused for one in opened))
            assert (await _ask(port, ACCOUNT + b"\r\n"))[0] == 503
            assert not any(one.transport.is_closing() for one in opened[:2])


async def test_body_of_many_small_chunks_is_refused() -> None:
    head = b"POST /api/git-app/webhook HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    large = b"100\r\n%s\r\n" % (b"x" * 256)
    async with serving() as port:
        for chunks, is_refused in (
            (b"1\r\nx\r\n" * 1024 + b"0\r\n\r\n", False),
            (b"1\r\nx\r\n" * 1024 + large * 400 + b"0\r\n\r\n", False),
            (b"1\r\nx\r\n" * 1100, True),
        ):
            _, _, body = await _ask(port, head + chunks)
            assert ("under 64 bytes on average" in json.loads(body)["detail"]) == is_refused
