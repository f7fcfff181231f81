"""Forwards an application's response to the caller as it arrives."""

from typing import NamedTuple

from aiohttp import StreamReader
from aiohttp.http import HttpVersion11, RawResponseMessage

from deployer.traffic.proxy.caller import Caller, RelayedResponse
from deployer.traffic.proxy.heads import LAST_CHUNK, write_chunk, write_response_head
from deployer.traffic.proxy.refusals import BadGateway
from deployer.traffic.proxy.upstream import InvalidResponse, TruncatedResponse, Upstream, read_body

_NO_BODY = (204, 304)


class _Framing(NamedTuple):
    header: bytes
    is_chunked: bool
    by_closing: bool
    """No header delimits the body: it ends with the connection. HTTP/1.0 has no other way for a body without a
    length."""


class UpstreamResponse:
    """An application's response to forward to the caller."""

    def __init__(
        self, caller: Caller, upstream: Upstream, message: RawResponseMessage, body: StreamReader
    ) -> None:
        self._caller = caller
        self._upstream = upstream
        self._message = message
        self._body = body
        self._is_ended = False

    @property
    def is_event_stream(self) -> bool:
        """Return True for server-sent events. Their readers reconnect when the stream ends."""
        kind = self._message.headers.get("Content-Type", "").partition(";")[0]
        return kind.strip().lower() == "text/event-stream"

    def end(self) -> None:
        """End an event stream early. The caller sees a complete stream, unless it has a `Content-Length`."""
        self._is_ended = True
        self._upstream.cut()

    async def relay(self, *, may_stay_open: bool) -> RelayedResponse:
        """Write head and body. `may_stay_open`: the caller's connection may be used for another request.

        If the body is truncated, end the caller's connection so that the caller notices. Raises `BadGateway` for a head
        that cannot be forwarded, and `CallerDisconnected`.
        """
        caller, message = self._caller, self._message
        request = caller.request
        is_http_11 = request.version >= HttpVersion11
        framing = _choose_framing(message, request.method, is_http_11=is_http_11)
        keep_alive = may_stay_open and request.keep_alive and not framing.by_closing
        head = write_response_head(
            message.code,
            message.reason,
            message.raw_headers,
            framing=framing.header,
            connection=_connection(keep_alive=keep_alive, is_http_11=is_http_11),
        )
        if head is None:
            raise BadGateway("The application's answer has headers that cannot be passed on.")
        caller.has_response = True
        try:
            await self._write_body(head, is_chunked=framing.is_chunked)
        except TruncatedResponse:
            if not self._is_ended or not (framing.is_chunked or framing.by_closing):
                caller.end_early(reset=framing.by_closing)
            elif framing.is_chunked:
                caller.write(LAST_CHUNK)
                await caller.drain()
            return RelayedResponse(message.code, keep_alive=False)
        return RelayedResponse(message.code, keep_alive=keep_alive and not self._is_ended)

    async def _write_body(self, head: bytes, *, is_chunked: bool) -> None:
        """Write the available part of the body together with the head, and each later part as it arrives."""
        caller, body = self._caller, self._body
        waiting = head
        if body.is_eof() and body.exception() is None:
            data = body.read_nowait()
            caller.write(waiting + (write_chunk(data) + LAST_CHUNK if is_chunked else data))
            await caller.drain()
            return
        if body.total_bytes == 0:
            # The stream has no events so far: write its head now.
            caller.write(waiting)
            waiting = b""
        while data := await read_body(body):
            caller.write(waiting + (write_chunk(data) if is_chunked else data))
            # Free the memory while the caller does not read.
            del data
            waiting = b""
            if caller.has_backlog:
                self._upstream.pause()
                await caller.drain()
                self._upstream.resume()
        if is_chunked or waiting:
            caller.write(waiting + (LAST_CHUNK if is_chunked else b""))
            await caller.drain()


def _connection(*, keep_alive: bool, is_http_11: bool) -> bytes:
    if not keep_alive:
        return b"Connection: close"
    return b"" if is_http_11 else b"Connection: keep-alive"


def is_final(message: RawResponseMessage) -> bool:
    """Return True for a final response or a protocol switch, False for an interim one. Raises `InvalidResponse`."""
    if not 100 <= message.code <= 599:
        raise InvalidResponse(f"{message.code:03d} is no status of HTTP.")
    if message.code >= 200 or message.code == 101:
        return True
    if message.chunked or message.headers.get("Content-Length", "0") != "0":
        raise InvalidResponse("An interim answer has no body.")
    return False


def relay_interim(caller: Caller, message: RawResponseMessage, *, expects_continue: bool) -> None:
    """Forward a 1xx response to a caller that can handle it."""
    if caller.request.version < HttpVersion11 or (message.code == 100 and not expects_continue):
        return
    head = write_response_head(message.code, message.reason, message.raw_headers, framing=b"", connection=b"")
    if head is not None:
        caller.write(head)


def _choose_framing(message: RawResponseMessage, method: str, *, is_http_11: bool) -> _Framing:
    length = message.headers.get("Content-Length")
    if message.code in _NO_BODY or method == "HEAD":
        has_length = length is not None and length.isdigit() and message.code != 204
        return _Framing(b"Content-Length: " + str(length).encode() if has_length else b"", False, False)
    if length is not None and not message.chunked:
        return _Framing(b"Content-Length: %d" % int(length), False, False)
    if is_http_11:
        return _Framing(b"Transfer-Encoding: chunked", True, False)
    return _Framing(b"", False, True)
