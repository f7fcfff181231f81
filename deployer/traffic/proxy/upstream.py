"""A connection to an instance for one request: sends the request, and reads the response's head and body.

The class extends aiohttp's client protocol, which parses in C and applies back pressure, without aiohttp's sessions and
pools: those only add costs for a proxy that opens a connection for each request.
"""

import asyncio
from typing import Any

from aiohttp import StreamReader
from aiohttp.client_exceptions import ClientError
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import RawResponseMessage
from aiohttp.http_exceptions import HttpProcessingError

from connection_bounds.bounded_reads import READ_BYTES, bound_buffers
from deployer.listeners.owners import ListenerOwners
from deployer.traffic.interface import Target
from deployer.traffic.proxy.heads import HEAD_BYTES

# A target that does not respond within this time counts as refusing.
_CONNECT_SECONDS = 5.0
# aiohttp buffers up to twice this size of a body: it stops reading after two reads, not after one.
_BODY_BYTES = READ_BYTES // 2
_UNSENT_BYTES = 32 * 1024
# Maximum size of all heads and of all trailers, each in addition to one read. aiohttp limits each header, but not their
# sum. Buffered trailers are not used.
_HEADS_BYTES = 2 * HEAD_BYTES
_TRAILER_BYTES = 16 * 1024
# The parser parses a whole piece at once, and a piece may consist of the shortest possible heads.
_HEAD_PIECE_BYTES = 1024
# The proxy forwards interim responses without waiting for the caller to read them.
_MAX_INTERIM_RESPONSES = 15
# How many seconds the last bytes of a WebSocket have to be sent.
_CLOSE_SECONDS = 10.0


class UpstreamRefused(Exception):
    """No program listens at the target, or the program is not the expected instance. Nothing was sent."""


class UpstreamDied(Exception):
    """The connection ended before the response's head. The request may have been executed."""


class InvalidResponse(Exception):
    """The received bytes are not an HTTP/1.1 response."""


class ResponseTooLong(InvalidResponse):
    """The response's heads, including interim ones, have too many bytes."""


class TruncatedResponse(Exception):
    """The connection ended before the end of the body."""


class _ResponseEnded(Exception):
    """Stops the parser at the end of the response. aiohttp treats the exception as a connection error, and closes the
    connection."""


class Upstream(ResponseHandler):
    """A connection to an instance for one request. Created by `open_upstream`. End it with `abort` or `end_tunnel`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._body: StreamReader | None = None
        self._head_bytes = 0
        self._interim_responses = 0
        self._trailer_bytes = 0
        self._is_body_parsed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        bound_buffers(transport, self, _UNSENT_BYTES)

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """Receive a head from the parser. Ignore heads after the first final one."""
        message, body = data
        if self._body is not None or self._has_too_many_interim:
            return
        super().feed_data(data, size)
        if message.code >= 200:
            self._body = body
        elif message.code != 101:
            self._interim_responses += 1

    def data_received(self, data: bytes) -> None:
        """Pass `data` to the parser, in bounded pieces and up to bounded memory."""
        if self._parser is None or self._upgraded:
            super().data_received(data)
        elif self._body is not None:
            self._read_body(data, self._body)
        elif len(data) <= _HEAD_PIECE_BYTES:
            self._read_heads(data)
        else:
            self._read_pieces(data)

    def _read_pieces(self, data: bytes) -> None:
        """Parse heads piece by piece, and the bytes after the heads as a whole."""
        position = 0
        while position < len(data) and self._body is None and not self._upgraded:
            if self._parser is None or self.transport is None or self.transport.is_closing():
                return
            self._read_heads(data[position : position + _HEAD_PIECE_BYTES])
            position += _HEAD_PIECE_BYTES
        if position < len(data):
            self.data_received(data[position:])

    def _read_heads(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        if self._body is not None or self._upgraded:
            return
        if self._head_bytes > _HEADS_BYTES or self._has_too_many_interim:
            self.cut()

    @property
    def _has_too_many_interim(self) -> bool:
        return self._interim_responses > _MAX_INTERIM_RESPONSES

    def _read_body(self, data: bytes, body: StreamReader) -> None:
        if body.is_eof():
            # Bytes after the response belong to no request, so stop reading.
            self.pause()
            return
        before = body.total_bytes
        self._is_body_parsed = True
        super().data_received(data)
        self._is_body_parsed = False
        if body.total_bytes != before:
            self._trailer_bytes = 0
            return
        # These bytes are trailers, or extensions of chunks.
        self._trailer_bytes += len(data)
        if self._trailer_bytes > _TRAILER_BYTES and not body.is_eof():
            self.cut()

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Resume reading. The parser calls this without `resume_parser` at the end of a body, and would then parse all
        following bytes: a read may bring more than a thousand further responses."""
        super().resume_reading(resume_parser)
        if self._is_body_parsed and not resume_parser:
            raise _ResponseEnded

    def send(self, data: bytes) -> None:
        """Write without waiting. Raises `ConnectionError`."""
        if self.transport is None or self.transport.is_closing():
            raise ConnectionResetError("The instance has closed the connection.")
        self.transport.write(data)

    def expect_response(self, *, to_head: bool) -> None:
        """Prepare for a response, before the request is sent. `to_head`: True for a HEAD request, whose response has no
        body despite its headers."""
        self.set_response_params(
            skip_payload=to_head,
            read_until_eof=True,
            auto_decompress=False,
            read_bufsize=_BODY_BYTES,
            max_line_size=HEAD_BYTES,
            max_field_size=HEAD_BYTES,
        )

    async def read_head(self) -> tuple[RawResponseMessage, StreamReader]:
        """Return the next head, which may be a 1xx head, and its body. Raises `UpstreamDied`, `InvalidResponse`."""
        try:
            return await self.read()
        except HttpProcessingError as error:
            raise InvalidResponse(str(error.message)) from None
        except (ClientError, OSError) as error:
            if self._has_too_many_interim:
                raise InvalidResponse(f"Over {_MAX_INTERIM_RESPONSES} interim answers.") from None
            if self._head_bytes > _HEADS_BYTES:
                raise ResponseTooLong(f"Over {_HEADS_BYTES:,} bytes.") from None
            raise UpstreamDied(str(error)) from None

    def pause(self) -> None:
        """Pause reading from the instance."""
        self._pause_reading_for_buffer()

    def resume(self) -> None:
        """Resume reading from the instance after `pause`."""
        self._resume_reading_for_buffer()

    def cut(self) -> None:
        """End the connection at once, and wake its readers with an error. `abort` would leave them waiting."""
        if self.transport is not None:
            self.transport.abort()

    def feed_to(self, pipe: Any) -> None:
        """After a 101, pass received bytes to the pipe's `feed_data`."""
        self.set_parser(pipe, None)

    def end_tunnel(self) -> None:
        """Close the connection after the written bytes are sent."""
        transport = self.transport
        if transport is not None:
            self.close()
            asyncio.get_running_loop().call_later(_CLOSE_SECONDS, transport.abort)


async def read_body(body: StreamReader) -> bytes:
    """Return the next part of the body; empty at its end. Raises `TruncatedResponse`."""
    try:
        return await body.readany()
    except (ClientError, HttpProcessingError, OSError) as error:
        raise TruncatedResponse(str(error)) from None


async def open_upstream(target: Target, listeners: ListenerOwners | None = None) -> Upstream:
    """Connect to the target. With `listeners`, connect only to the instance that the port was assigned to. Raises
    `UpstreamRefused`."""
    loop = asyncio.get_running_loop()
    known = frozenset() if listeners is None else listeners.verified_cookies(target.port)
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            transport, upstream = await loop.create_connection(
                lambda: Upstream(loop), target.host, target.port
            )
    except OSError as error:
        raise UpstreamRefused(str(error)) from None
    if transport.get_extra_info("sockname") == transport.get_extra_info("peername"):
        # Linux can connect a socket to itself if no program listens on a port of the ephemeral range. An open
        # connection of this kind would keep the port from the instance that is starting.
        transport.abort()
        raise UpstreamRefused("Nobody listens; the connection reached itself.")
    if listeners is not None and not listeners.is_owned(target.port, known):
        transport.abort()
        raise UpstreamRefused("Another program may have taken the connection.")
    return upstream
