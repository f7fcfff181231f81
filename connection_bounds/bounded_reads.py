"""Read from connections in small pieces.

asyncio and uvloop deliver up to 256 KiB at a time. The server would keep two such pieces for each request of a peer
that stops reading.
"""

import asyncio
import threading
from typing import cast

# A stalled stream keeps two pieces: the second is read while the first is passed on.
READ_BYTES = 24 * 1024


class _Buffers(threading.local):
    """The read buffer of an event loop. All connections share it: its content is copied before the next read."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(READ_BYTES))


_buffers = _Buffers()


class BoundedReads(asyncio.BufferedProtocol):
    """Passes the data of a transport on to a protocol, in pieces of at most `READ_BYTES`."""

    __slots__ = ("_protocol", "_view")

    def __init__(self, protocol: asyncio.Protocol) -> None:
        self._protocol = protocol
        self._view = _buffers.view

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        self._protocol.data_received(bytes(self._view[:nbytes]))

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.connection_lost(exc)


def bound_buffers(transport: asyncio.BaseTransport, protocol: asyncio.Protocol, unsent: int) -> None:
    """Limit `protocol` to `READ_BYTES` per read, and pause its writing while over `unsent` bytes are unsent.

    Call this in `connection_made`. With `unsent` of 0, any unsent byte causes `pause_writing`.
    """
    # uvloop's transports are no subclass of `asyncio.Transport`.
    connection = cast(asyncio.Transport, transport)
    connection.set_write_buffer_limits(high=unsent)
    connection.set_protocol(BoundedReads(protocol))
