"""Responses of an ASGI application on the edge's port."""

import asyncio
from typing import Any

from aiohttp import web

from control_api.http.middleware import BodyChunkMiddleware
from ingest_edge.app import Edge, edge_runner
from ingest_edge.metrics import EdgeMetrics
from tests.support.unread_responses import callers_that_never_read, listen_with_small_buffers
from tests.support.waits import poll_until
from wiring.embedded.asgi_bridge import asgi_handler

_BODY = bytes(range(256)) * 8_000
_GET = b"GET /api/large HTTP/1.1\r\nHost: edge\r\n\r\n"


async def _large(scope: Any, receive: Any, send: Any) -> None:
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(_BODY))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": _BODY})


async def test_unread_large_response_is_barely_buffered() -> None:
    runner = edge_runner(Edge(EdgeMetrics(), asgi_handler(BodyChunkMiddleware(_large))))
    await runner.setup()
    listening = listen_with_small_buffers()
    await web.SockSite(runner, listening).start()
    server, port = runner.server, listening.getsockname()[1]
    assert server is not None
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(_GET)
        head = await reader.readuntil(b"\r\n\r\n")
        # One length, and no transfer coding.
        assert head.lower().count(b"content-length: %d\r\n" % len(_BODY)) == 1 and b"chunked" not in head
        assert await reader.readexactly(len(_BODY)) == _BODY
        writer.close()
        await poll_until(lambda: not server.connections)
        with callers_that_never_read(port, _GET):
            await poll_until(lambda: server.connections and server.connections[0].writing_paused)
            transport = server.connections[0].transport
            assert transport is not None
            assert 0 < transport.get_write_buffer_size() <= 33 * 1024
    finally:
        await runner.cleanup()
