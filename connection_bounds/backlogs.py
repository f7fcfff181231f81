"""Find connections whose peer has stopped reading."""

import asyncio
import contextlib
import fcntl
import logging
import struct
import termios
from collections.abc import Callable
from typing import Any, Protocol

logger = logging.getLogger(__name__)

_MAX_SECONDS_BETWEEN_SWEEPS = 5.0
_SWEEPS_PER_SILENCE = 8


class WriteTransport(Protocol):
    """The methods of a transport that the sweep needs."""

    def get_extra_info(self, name: str) -> Any: ...
    def get_write_buffer_size(self) -> int: ...


class Backlog:
    """The unsent bytes of one connection. The sweep calls `on_silence` for a silent peer."""

    __slots__ = ("changed_at", "on_silence", "transport", "unsent")

    def __init__(self, transport: WriteTransport, on_silence: Callable[[], None], now: float) -> None:
        self.transport = transport
        self.on_silence = on_silence
        self.unsent = -1
        self.changed_at = now


class Backlogs:
    """The watched backlogs. `silent_seconds`: the longest time in which a peer may acknowledge nothing.

    A peer that takes a byte now and then is slow, not silent, and has no time limit.
    """

    def __init__(self, silent_seconds: float) -> None:
        self.silent_seconds = silent_seconds
        self._watched: set[Backlog] = set()

    def __len__(self) -> int:
        return len(self._watched)

    def begin(self, transport: WriteTransport, on_silence: Callable[[], None], now: float) -> Backlog:
        """Watch the unsent bytes of this connection until `end`."""
        backlog = Backlog(transport, on_silence, now)
        self._watched.add(backlog)
        return backlog

    def end(self, backlog: Backlog) -> None:
        """Stop watching the backlog."""
        self._watched.discard(backlog)

    def sweep(self, now: float) -> None:
        """Check each backlog once, and report silent peers. Call this several times per `silent_seconds`."""
        for backlog in list(self._watched):
            try:
                self._check(backlog, now)
            except Exception:
                # A connection that cannot be checked must not stop the sweep of the others.
                logger.exception("cannot check whether the peer of a connection still reads")

    def _check(self, backlog: Backlog, now: float) -> None:
        unsent = unsent_bytes(backlog.transport)
        if unsent != backlog.unsent:
            backlog.unsent, backlog.changed_at = unsent, now
        elif now - backlog.changed_at >= self.silent_seconds:
            backlog.on_silence()


class BacklogSweeper:
    """Aborts connections of one server whose peer acknowledges no byte for `silent_seconds`.

    Without this, `transport.close()` waits forever for a peer that does not read.
    """

    def __init__(self, silent_seconds: float) -> None:
        self._backlogs = Backlogs(silent_seconds)
        self._pause = min(silent_seconds / _SWEEPS_PER_SILENCE, _MAX_SECONDS_BETWEEN_SWEEPS)
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, transport: asyncio.Transport) -> Backlog:
        """Watch a connection that has unsent bytes until `end`."""
        loop = asyncio.get_running_loop()
        backlog = self._backlogs.begin(transport, transport.abort, loop.time())
        if self._timer is None:
            self._timer = loop.call_later(self._pause, self._sweep)
        return backlog

    def end(self, backlog: Backlog) -> None:
        """Stop watching: all bytes are sent, or the connection is lost."""
        self._backlogs.end(backlog)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self._backlogs.sweep(loop.time())
        # The timer runs only while a connection is watched, so that no server has to stop the timer.
        self._timer = loop.call_later(self._pause, self._sweep) if self._backlogs else None


def unsent_bytes(transport: WriteTransport) -> int:
    """Return the number of bytes that the peer has not acknowledged, in the transport's buffer and the kernel's."""
    size = transport.get_write_buffer_size()
    connection = transport.get_extra_info("socket")
    if connection is not None:
        # A closed connection has the descriptor -1, which is a `ValueError`.
        with contextlib.suppress(OSError, ValueError):
            size += struct.unpack("i", fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(4)))[0]
    return size
