"""The caller's side of one request: reads the request's body, and writes the raw response."""

import asyncio
import socket
import struct
from typing import Any

from aiohttp import web

from deployer.traffic.proxy.watch import Watch, has_disconnected


class CallerDisconnected(ConnectionError):
    """The caller has closed its connection."""


class RelayedResponse(web.StreamResponse):
    """A response that was already written to the connection."""

    def __init__(self, status: int, *, keep_alive: bool) -> None:
        super().__init__(status=status)
        self._keep_alive = keep_alive

    async def prepare(self, request: web.BaseRequest) -> None:
        """Do nothing: the response is already written."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing: the response is already written."""


class Caller:
    """The connection over which a caller has sent a request.

    The proxy gives up a caller that sends no part of its body for the watch's `silent_seconds`. A slow caller may take
    any time. `BoundedProtocol` cuts a caller that reads nothing of its response.
    """

    __slots__ = ("_watch", "has_response", "request")

    def __init__(self, request: web.BaseRequest, watch: Watch) -> None:
        self.request = request
        self._watch = watch
        self.has_response = False
        """True if a response head was written. No other response is possible then."""

    @property
    def peer(self) -> str:
        """Return the caller's IP address."""
        transport = self.request.transport
        name = transport.get_extra_info("peername") if transport is not None else None
        return str(name[0]).removeprefix("::ffff:") if isinstance(name, tuple) else "unknown"

    @property
    def has_disconnected_unnoticed(self) -> bool:
        """Return True if the caller has closed the connection while the proxy was not reading from it."""
        protocol, transport = self.request.protocol, self.request.transport
        is_paused = protocol._reading_paused or protocol._buffer_paused
        return is_paused and transport is not None and has_disconnected(transport)

    def write(self, data: bytes) -> None:
        """Write bytes to the caller without waiting. Raises `CallerDisconnected`."""
        transport = self.request.transport
        if transport is None or transport.is_closing():
            raise CallerDisconnected
        transport.write(data)

    @property
    def has_backlog(self) -> bool:
        """Return True if written bytes still wait for the caller to read them."""
        return self.request.protocol.writing_paused

    async def drain(self) -> None:
        """Wait until the caller has read most of the written bytes. Raises `CallerDisconnected`."""
        protocol = self.request.protocol
        if not protocol.writing_paused:
            return
        try:
            await self.request.writer.drain()
        except ConnectionError:
            self.cut()
            raise CallerDisconnected from None

    async def read(self) -> bytes:
        """Return the next part of the body; empty at its end. Raises `TimeoutError`, and aiohttp's errors for a bad
        body."""
        async with asyncio.timeout(self._watch.silent_seconds):
            return await self.request.content.readany()

    def feed_to(self, pipe: Any) -> None:
        """After an upgrade of the connection, pass received bytes to `feed_data` of the pipe."""
        self.request.protocol.set_parser(pipe)

    def end_early(self, *, reset: bool) -> None:
        """End the connection in the middle of a response. `reset`: reset the connection, because a normal close would
        look like the end of the response."""
        transport = self.request.transport
        if transport is None:
            return
        if reset:
            connection = transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()
        else:
            transport.close()

    def cut(self) -> None:
        """End the connection without sending the remaining bytes."""
        if self.request.transport is not None:
            self.request.transport.abort()
