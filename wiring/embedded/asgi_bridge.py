"""Serves an ASGI application from aiohttp, so that one port carries the edge and the control plane."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import hdrs, web

from ingest_edge.body import send_continue
from ingest_edge.responses import REQUEST_ID, SERVER
from pipeline_contracts.errors import MalformedRequest

AsgiApp = Callable[
    [dict[str, Any], Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]
]


def asgi_handler(app: AsgiApp) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    """Return a handler that passes requests to `app`. Bodies are streamed in both directions; a body in one message
    becomes a response with a length. WebSockets are not supported."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        exchange = _Exchange(request)
        await app(_scope(request), exchange.receive, exchange.send)
        if exchange.response is None:
            raise exchange.fault or RuntimeError("The application ended without a response.")
        if exchange.response.prepared:
            # The client may have disconnected during the stream.
            with contextlib.suppress(ConnectionError):
                await exchange.response.write_eof()
        return exchange.response

    return handle


def _scope(request: web.BaseRequest) -> dict[str, Any]:
    peer = request.transport.get_extra_info("peername") if request.transport is not None else None
    local = request.transport.get_extra_info("sockname") if request.transport is not None else None
    headers = [
        (name.lower(), value) for name, value in request.raw_headers if name.lower() != b"x-request-id"
    ]
    headers.append((b"x-request-id", request[REQUEST_ID].encode("latin-1")))
    raw_path, _, query = request.raw_path.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": f"{request.version.major}.{request.version.minor}",
        "method": request.method,
        "scheme": request.scheme,
        "path": request.path,
        "raw_path": raw_path.encode("latin-1", "replace"),
        "query_string": query.encode("latin-1", "replace"),
        "root_path": "",
        "headers": headers,
        "client": tuple(peer[:2]) if isinstance(peer, tuple) else None,
        "server": tuple(local[:2]) if isinstance(local, tuple) else None,
        "state": {},
    }


class _Exchange:
    """One request and its response, as ASGI messages."""

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        self._status = 0
        self._headers: list[tuple[str, str]] = []
        self._body_started = self._body_ended = False
        self.response: web.StreamResponse | None = None
        self.fault: Exception | None = None
        """Why the body is incomplete."""

    async def receive(self) -> dict[str, Any]:
        if self._body_ended:
            # The only event left is the disconnect of the client.
            transport = self._request.transport
            while transport is not None and not transport.is_closing():  # noqa: ASYNC110 (no event)
                await asyncio.sleep(0.5)
            return self._disconnect(ConnectionResetError("The caller has hung up."))
        content = self._request.content
        if not self._body_started:
            self._body_started = True
            if not content.is_eof():
                await send_continue(self._request)
        try:
            chunk = await content.readany()
        except ConnectionError as error:
            return self._disconnect(error)
        except web.RequestPayloadError:
            return self._disconnect(MalformedRequest("The body's transfer coding is broken."))
        self._body_ended = content.at_eof()
        return {"type": "http.request", "body": chunk, "more_body": not self._body_ended}

    def _disconnect(self, fault: Exception) -> dict[str, Any]:
        self.fault = fault
        self._body_ended = True
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = [
                (k.decode("latin-1"), v.decode("latin-1")) for k, v in message.get("headers", [])
            ]
        elif message["type"] == "http.response.body":
            # The client may have disconnected: the application learns it from `receive`.
            with contextlib.suppress(ConnectionError):
                await self._send_body(message.get("body", b""), bool(message.get("more_body", False)))

    async def _send_body(self, body: bytes, more: bool) -> None:
        if self.response is None and not more:
            self.response = web.Response(status=self._status, body=body or None)
            # The length in a response to HEAD is the length of the omitted body.
            self._fill_headers(self.response, keep_length=self._request.method == "HEAD")
            return
        if self.response is None:
            self.response = web.StreamResponse(status=self._status)
            self._fill_headers(self.response, keep_length=True)
            await self.response.prepare(self._request)
        if body:
            await self.response.write(body)
            # aiohttp itself waits for the client only once per 64 KiB.
            await self._request.writer.drain()

    def _fill_headers(self, response: web.StreamResponse, *, keep_length: bool) -> None:
        """Copy the headers. `keep_length`: keep the application's Content-Length, instead of aiohttp's."""
        response.headers[hdrs.SERVER] = SERVER
        response.headers.popall("Content-Type", None)
        for name, value in self._headers:
            if keep_length or name.lower() != "content-length":
                response.headers.add(name, value)
