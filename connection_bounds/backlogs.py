"""Finds connections whose peer has stopped reading."""

import contextlib
import fcntl
import logging
import struct
import termios
from collections.abc import Callable
from typing import Any, Protocol

logger = logging.getLogger(__name__)


class WriteTransport(Protocol):
    """The methods of a transport that the sweep needs."""

    def get_extra_info(self, name: str) -> Any: ...
    def get_write_buffer_size(self) -> int: ...


class Backlog:
    """The unsent bytes of one connection. The sweep calls `give_up` for a silent peer."""

    __slots__ = ("give_up", "left", "moved_at", "transport")

    def __init__(self, transport: WriteTransport, give_up: Callable[[], None], now: float) -> None:
        self.transport = transport
        self.give_up = give_up
        self.left = -1
        self.moved_at = now


class Backlogs:
    """The watched backlogs. `silent_seconds`: the longest time in which a peer may acknowledge nothing.

    A peer that takes a byte now and then is slow, not silent, and has no time limit.
    """

    def __init__(self, silent_seconds: float) -> None:
        self.silent_seconds = silent_seconds
        self._watched: set[Backlog] = set()

    def __len__(self) -> int:
        return len(self._watched)

    def begin(self, transport: WriteTransport, give_up: Callable[[], None], now: float) -> Backlog:
        """Watch the unsent bytes of this connection until `end`."""
        backlog = Backlog(transport, give_up, now)
        self._watched.add(backlog)
        return backlog

    def end(self, backlog: Backlog) -> None:
        """Stop watching the backlog."""
        self._watched.discard(backlog)

    def sweep(self, now: float) -> None:
        """Check each backlog once, and give up those of silent peers. Call this several times per `silent_seconds`."""
        for backlog in list(self._watched):
            try:
                self._check(backlog, now)
            except Exception:
                # A connection that cannot be checked must not stop the sweep of the others.
                logger.exception("a connection could not be checked for silence")

    def _check(self, backlog: Backlog, now: float) -> None:
        left = unsent_bytes(backlog.transport)
        if left != backlog.left:
            backlog.left, backlog.moved_at = left, now
        elif now - backlog.moved_at >= self.silent_seconds:
            backlog.give_up()


def unsent_bytes(transport: WriteTransport) -> int:
    """Return the number of bytes in the transport's buffer, and in the kernel's that the peer has not acknowledged."""
    size = transport.get_write_buffer_size()
    connection = transport.get_extra_info("socket")
    if connection is not None:
        # A closed connection has the descriptor -1, which is a `ValueError`.
        with contextlib.suppress(OSError, ValueError):
            size += struct.unpack("i", fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4)))[0]
    return size
