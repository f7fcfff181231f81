"""Test applications, and a caller that sends raw bytes."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

from deployer.traffic.interface import Target
from tests.support.engines import free_port

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Application:
    """Responds with its name; `/slow`, `/events`, `/socket`, `/digest` and `/big` behave as their names say."""

    def __init__(self, name: str, port: int = 0) -> None:
        self.name = name
        self.target = Target(port or free_port())
        self.request_count = 0
        self.step = asyncio.Event()
        """What `/slow` waits for, and `/events` before each event but the first."""
        self.left = asyncio.Event()
        """A caller of `/events` went away."""
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application(client_max_size=2**30)
        app.router.add_get("/events", self._events)
        app.router.add_get("/socket", self._socket)
        app.router.add_post("/digest", self._digest)
        app.router.add_get("/big", self._big)
        app.router.add_route("*", "/{path:.*}", self._show)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, self.target.host, self.target.port).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _show(self, request: web.Request) -> web.StreamResponse:
        self.request_count += 1
        if request.path == "/unchanged":
            return web.Response(status=304, headers={"ETag": '"1"'})
        if request.path == "/empty":
            return web.Response(status=204)
        if request.path == "/slow":
            await self.step.wait()
        told = {
            "name": self.name,
            "method": request.method,
            "path": request.raw_path,
            "headers": [[name, value] for name, value in request.headers.items()],
            "body": (await request.text()),
        }
        hops = {"Connection": "X-Private", "X-Private": "1", "Keep-Alive": "5", "X-Kept": "1"}
        return web.json_response(told, headers=hops if request.path == "/hops" else None)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        self.request_count += 1
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        number = 0
        try:
            while True:
                await response.write(b"data: %d\n\n" % number)
                number += 1
                await self.step.wait()
                self.step.clear()
        finally:
            self.left.set()

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=["chat"], max_msg_size=0)
        await socket.prepare(request)
        async for message in socket:
            if message.type is aiohttp.WSMsgType.BINARY:
                await socket.send_bytes(message.data)
            elif message.data == "end":
                await socket.close(code=4001, message=b"as asked")
            else:
                await socket.send_str(f"{self.name}: {message.data}")
        return socket

    async def _digest(self, request: web.Request) -> web.StreamResponse:
        digest = hashlib.sha256()
        async for data in request.content.iter_any():
            digest.update(data)
        return web.Response(text=digest.hexdigest())

    async def _big(self, request: web.Request) -> web.StreamResponse:
        """Return the requested number of bytes. With `length=1` the response has a Content-Length."""
        size = int(request.query["size"])
        response = web.StreamResponse()
        if "length" in request.query:
            response.content_length = size
        await response.prepare(request)
        for _ in range(size // 65536):
            await response.write(bytes(65536))
        await response.write_eof()
        return response


@asynccontextmanager
async def running_application(name: str, port: int = 0) -> AsyncIterator[Application]:
    """Run a listening application during the block."""
    application = Application(name, port)
    await application.start()
    try:
        yield application
    finally:
        await application.stop()


@asynccontextmanager
async def raw_server(serve: Serve, port: int = 0) -> AsyncIterator[Target]:
    """Call `serve` for each connection, and close the connection after it."""
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                await serve(reader, writer)
        finally:
            tasks.discard(task)
            writer.close()

    port = port or free_port()
    server = await asyncio.start_server(handle, "127.0.0.1", port)
    try:
        yield Target(port)
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def answering(data: bytes) -> Serve:
    """Return a handler that reads a head and writes these bytes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(data)
        await writer.drain()

    return serve


async def exchange_raw(port: int, data: bytes, later: bytes = b"", *, silence: float = 60.0) -> bytes:
    """Return all bytes until the connection is closed, or until no more bytes arrive for `silence` seconds after the
    first. Raises `TimeoutError` if no byte arrives."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    got = b""
    try:
        writer.write(data)
        if later:
            await asyncio.sleep(0.1)
            writer.write(later)
        async with asyncio.timeout(60):
            got = await reader.read(65536)
        with contextlib.suppress(TimeoutError):
            while more := await asyncio.wait_for(reader.read(65536), silence):
                got += more
    except ConnectionError:
        pass
    finally:
        writer.close()
    return got


async def until(condition: Callable[[], object]) -> None:
    """Poll the condition until it is true. Raises `TimeoutError`."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)
