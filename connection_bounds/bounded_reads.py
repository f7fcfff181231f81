"""Reads from connections in small pieces.

asyncio and uvloop deliver up to 256 KiB at a time. For each request of a peer that stops reading, the server would keep
such a piece, and a second one that arrived meanwhile.
"""

import asyncio
import threading
from typing import cast

# A stream that stands still keeps two of these: the second one is read while the first one is passed on.
READ_BYTES = 24 * 1024


class _Buffers(threading.local):
    """What an event loop reads into. Its content is copied before the loop reads again, so one serves all."""

    def __init__(self) -> None:
        self.view = memoryview(bytearray(READ_BYTES))


_buffers = _Buffers()


class BoundedReads(asyncio.BufferedProtocol):
    """Stands between a transport and a protocol that takes what arrives of whatever size."""

    __slots__ = ("_protocol", "_view")

    def __init__(self, protocol: asyncio.Protocol) -> None:
        self._protocol = protocol
        self._view = _buffers.view

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return what to read into."""
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        """Hand on what was read."""
        self._protocol.data_received(bytes(self._view[:nbytes]))

    def eof_received(self) -> bool | None:
        """Hand on the end."""
        return self._protocol.eof_received()

    def pause_writing(self) -> None:
        """Hand on that writing is to wait."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Hand on that writing may go on."""
        self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Hand on that the connection is closed."""
        self._protocol.connection_lost(exc)


def bound_buffers(transport: asyncio.BaseTransport, protocol: asyncio.Protocol, unsent: int) -> None:
    """Limit `protocol` to `READ_BYTES` per read, and pause its writing while the peer has over `unsent` bytes to take.

    Call this in `connection_made`. With `unsent` of 0, any unsent byte causes `pause_writing`.
    """
    # uvloop's is no subclass.
    connection = cast(asyncio.Transport, transport)
    connection.set_write_buffer_limits(high=unsent)
    connection.set_protocol(BoundedReads(protocol))
