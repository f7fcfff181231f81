"""The caller's side of one request: reads its body, writes the answer as it is to stand on the wire."""

import asyncio
import socket
import struct
from typing import Any

from aiohttp import web

from deployer.traffic.proxy.watch import Watch, has_disconnected


class CallerDisconnected(ConnectionError):
    """Nobody is there to be answered."""


class RelayedResponse(web.StreamResponse):
    """An answer that has been written already."""

    def __init__(self, status: int, *, keep_alive: bool) -> None:
        super().__init__(status=status)
        self._keep_alive = keep_alive

    async def prepare(self, request: web.BaseRequest) -> None:
        """Nothing is left to do."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Nothing is left to do."""


class Caller:
    """The connection that a request has come on.

    A caller that sends no more of its body for the watch's `silent_seconds` is given up; what flows, if slowly, may
    take for ever. `BoundedProtocol` cuts one that takes no more of its answer.
    """

    __slots__ = ("_watch", "has_response", "request")

    def __init__(self, request: web.BaseRequest, watch: Watch) -> None:
        self.request = request
        self._watch = watch
        self.has_response = False
        """Whether the answer's head was written, so that no other answer can be."""

    @property
    def peer(self) -> str:
        """The address that the connection comes from."""
        transport = self.request.transport
        name = transport.get_extra_info("peername") if transport is not None else None
        return str(name[0]).removeprefix("::ffff:") if isinstance(name, tuple) else "unknown"

    @property
    def has_disconnected_unnoticed(self) -> bool:
        """Whether the caller has closed the connection while nothing is read from it."""
        protocol, transport = self.request.protocol, self.request.transport
        is_paused = protocol._reading_paused or protocol._buffer_paused
        return is_paused and transport is not None and has_disconnected(transport)

    def write(self, data: bytes) -> None:
        """Raises `CallerDisconnected`."""
        transport = self.request.transport
        if transport is None or transport.is_closing():
            raise CallerDisconnected
        transport.write(data)

    @property
    def has_backlog(self) -> bool:
        """Whether something waits for the caller to take it."""
        return self.request.protocol.writing_paused

    async def drain(self) -> None:
        """Until the caller has taken most of what was written. Raises `CallerDisconnected`."""
        protocol = self.request.protocol
        if not protocol.writing_paused:
            return
        try:
            await self.request.writer.drain()
        except ConnectionError:
            self.cut()
            raise CallerDisconnected from None

    async def read(self) -> bytes:
        """What has come of the body, empty at its end. Raises `TimeoutError`, and aiohttp's errors for a bad body."""
        async with asyncio.timeout(self._watch.silent_seconds):
            return await self.request.content.readany()

    def feed_to(self, pipe: Any) -> None:
        """Behind an upgrade: whatever comes goes to the pipe's `feed_data`."""
        self.request.protocol.set_parser(pipe)

    def end_early(self, *, reset: bool) -> None:
        """End the connection in the middle of an answer. `reset`: where a plain end would look like the answer's."""
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
        """End the connection without sending what is left."""
        if self.request.transport is not None:
            self.request.transport.abort()
