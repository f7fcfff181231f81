"""An HTTP server that stands for a receiver: it stores the requests, and returns the responses that a test sets."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients that need no TLS, because loading the authorities of the system takes 30 ms."""


@dataclass
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """The server at 127.0.0.1."""

    port: int = 0
    received: list[Received] = field(default_factory=list)
    answers: list[web.Response | Callable[[web.Request], Awaitable[web.StreamResponse]]] = field(
        default_factory=list
    )
    """The next responses; 200 if there are none."""

    def url(self, path: str = "/hook", host: str = "127.0.0.1", scheme: str = "http") -> str:
        """Return the URL of a path."""
        return f"{scheme}://{host}:{self.port}{path}"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Store the request and return the next response."""
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.received.append(Received(request.path_qs, headers, await request.read()))
        answer = self.answers.pop(0) if self.answers else web.Response(text="ok")
        return answer if isinstance(answer, web.StreamResponse) else await answer(request)


@asynccontextmanager
async def run_receiver(tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    """Run the server on a free port."""
    receiver = Receiver()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", receiver.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        receiver.port = runner.addresses[0][1]
        yield receiver
    finally:
        await runner.cleanup()
