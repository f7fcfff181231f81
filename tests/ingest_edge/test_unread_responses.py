"""Callers that do not read their responses keep neither connections nor whole responses in memory forever."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable

import pytest
import uvloop
from aiohttp import web

from ingest_edge.app import Edge, edge_runner
from ingest_edge.http_server import BoundedProtocol, ServerLimits
from ingest_edge.metrics import EdgeMetrics
from pipeline_contracts.client_address import ClientAddresses
from tests.support.unread_responses import callers_that_never_read, listen_with_small_buffers
from tests.support.waits import poll_until

_LARGE, _SMALL = bytes(2_000_000), bytes(30_000)
_GET = b"GET /%s HTTP/1.1\r\nHost: edge\r\n\r\n"


@contextlib.asynccontextmanager
async def serving(
    *, total: int = 1000, silent_seconds: float = 600.0
) -> AsyncIterator[tuple[int, Callable[[], list[BoundedProtocol]]]]:
    """Yield the port of an edge with large and small responses, and a function that lists its connections."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=_LARGE if request.path == "/large" else _SMALL)

    limits = ServerLimits(
        32_768, 600.0, 100, ClientAddresses(()), total_connections=total, silent_seconds=silent_seconds
    )
    runner = edge_runner(Edge(EdgeMetrics(), answer), limits)
    await runner.setup()
    listening = listen_with_small_buffers()
    await web.SockSite(runner, listening).start()
    server = runner.server
    assert server is not None
    try:
        yield listening.getsockname()[1], lambda: list(server.connections)  # type: ignore[arg-type]
    finally:
        await runner.cleanup()


async def request_small(port: int) -> bytes:
    """Return the status line of a small response."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(_GET % b"small")
    line = await reader.readline()
    writer.close()
    return line


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_connection_of_a_caller_that_never_reads_is_aborted(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def run() -> None:
        async with serving(silent_seconds=0.05) as (port, connections):
            for sent in (_GET % b"large", _GET % b"small" * 3):
                with callers_that_never_read(port, sent):
                    await poll_until(connections)
                    await poll_until(lambda: not connections())
            assert b" 200 " in await request_small(port)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run())


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_connection_counts_while_responses_are_unsent(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """`transport.close()` frees no descriptor while bytes are unsent, so these connections are not idle."""

    async def run() -> None:
        async with serving(total=3) as (port, connections):
            with callers_that_never_read(port, _GET % b"small" * 2, 3) as callers:
                await poll_until(
                    lambda: len(connections()) == 3 and all(one.writing_paused for one in connections())
                )
                assert b" 503 " in await request_small(port)
                assert len(connections()) == 3
                # A connection is idle and can be closed once its responses are read.
                await _read_all(callers[0], 2)
                await poll_until(lambda: any(one.is_idle for one in connections()))
                assert b" 200 " in await request_small(port)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run())


async def _read_all(caller: socket.socket, answers: int) -> None:
    caller.setblocking(False)
    loop = asyncio.get_running_loop()
    received = 0
    while received < answers * len(_SMALL):
        received += len(await loop.sock_recv(caller, 65_536))


async def test_one_request_waits_while_another_is_in_progress() -> None:
    head = b"GET /small HTTP/1.1\r\nHost: edge\r\nX: %s\r\n\r\n" % (b"x" * 20_000)
    async with serving() as (port, connections):
        with callers_that_never_read(port, _GET % b"large") as callers:
            await poll_until(lambda: connections() and connections()[0].writing_paused)
            (connection,) = connections()
            callers[0].setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    callers[0].send(head)
            await poll_until(lambda: connection._buffer_paused)
            assert 1 <= len(connection._messages) <= 2
