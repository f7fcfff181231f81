"""Finds the peers that take nothing any more, and the callers that have left while nobody read from them.

asyncio notices the end of a connection by reading from it. While an application does not keep up with an upload, the
proxy does not read from the caller, so the kernel's state of the connection is looked at instead.
"""

import asyncio
import contextlib
import ctypes
import logging
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol

from aiohttp.base_protocol import BaseProtocol

from connection_bounds.backlogs import Backlog, Backlogs
from deployer.processes.threads import run_in_pool

logger = logging.getLogger(__name__)

_MOST_SECONDS_BETWEEN_SWEEPS = 1.0
_SWEEPS_PER_SILENCE = 4
# The first byte of Linux's `struct tcp_info`.
_TCP_CLOSE = 7
_TCP_CLOSE_WAIT = 8

# Fewer leave too little behind.
_ENDED_REQUESTS = 100


class PeerSilent(Exception):
    """The peer took no byte for too long."""


class WatchedCaller(Protocol):
    """What a sweep asks of a request's caller."""

    @property
    def has_disconnected_unnoticed(self) -> bool: ...
    def cut(self) -> None: ...


class Watch:
    """Sweeps over the open requests. `silent_seconds`: how long a peer may take nothing of what was written to it.

    A peer that takes a byte now and then is slow, not silent, and may take for ever.
    """

    def __init__(self, silent_seconds: float, clock: Callable[[], float] | None = None) -> None:
        self.silent_seconds = silent_seconds
        self._clock = clock
        self._backlogs = Backlogs(silent_seconds)
        self._callers: set[WatchedCaller] = set()
        self._memory = MemoryTrim()
        self._trim = find_malloc_trim()
        # Of its own: what holds the threads that all else shares must not hold up the sweeps.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="trim")

    def enter(self, caller: WatchedCaller) -> None:
        """Watch this caller until `leave`."""
        self._callers.add(caller)

    def leave(self, caller: WatchedCaller) -> None:
        """Watch it no longer."""
        self._callers.discard(caller)

    async def drain(self, protocol: BaseProtocol) -> None:
        """Wait until the peer has taken most of what was written. Raises `PeerSilent`, `ConnectionError`.

        One task a connection may wait.
        """
        if not protocol.writing_paused:
            return
        if protocol.transport is None:
            raise ConnectionResetError("The connection is closed.")
        # In the place where aiohttp's protocol looks for those who wait; a cancelled one may still be there.
        waiter = protocol._drain_waiter = asyncio.get_running_loop().create_future()
        backlog = self.begin(protocol.transport, lambda: _fail(waiter))
        try:
            await waiter
        finally:
            self.end(backlog)

    def begin(self, transport: asyncio.WriteTransport, give_up: Callable[[], None]) -> Backlog:
        """Watch what waits to leave on this connection until `end`."""
        return self._backlogs.begin(transport, give_up, self._now())

    def end(self, backlog: Backlog) -> None:
        """Watch it no longer."""
        self._backlogs.end(backlog)

    async def run(self) -> None:
        """Sweep until cancelled."""
        pause = min(self.silent_seconds / _SWEEPS_PER_SILENCE, _MOST_SECONDS_BETWEEN_SWEEPS)
        while True:
            await asyncio.sleep(pause)
            self.sweep()
            if self._trim is not None and self._memory.is_due(len(self._callers)):
                # OSError: the machine has no free thread. The sweep of silent connections continues nevertheless.
                with contextlib.suppress(OSError):
                    await run_in_pool(self._thread, partial(self._trim, 0))

    def sweep(self) -> None:
        """Look at each connection once. A connection that cannot be looked at keeps no other from being swept."""
        self._backlogs.sweep(self._now())
        for caller in list(self._callers):
            try:
                if caller.has_disconnected_unnoticed:
                    caller.cut()
            except Exception:
                logger.exception("a caller could not be checked")

    def _now(self) -> float:
        return asyncio.get_running_loop().time() if self._clock is None else self._clock()


def has_disconnected(transport: asyncio.BaseTransport) -> bool:
    """Whether the peer has closed or reset its side. False where the kernel does not tell.

    The end of a peer whose last bytes do not fit into the receive window is not known to the kernel either.
    """
    connection = transport.get_extra_info("socket")
    if connection is None or not hasattr(socket, "TCP_INFO"):
        return False
    try:
        state = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)
    except OSError:
        return False
    return state[0] in (_TCP_CLOSE, _TCP_CLOSE_WAIT)


def _fail(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_exception(PeerSilent())


class MemoryTrim:
    """Counts the open requests, and tells when a wave of them has ended."""

    def __init__(self) -> None:
        self._peak = 0

    def is_due(self, count: int) -> bool:
        """Whether so many requests have ended since the last time that their memory is worth returning.

        `count`: how many are open. To be asked periodically.
        """
        self._peak = max(self._peak, count)
        if self._peak - count < max(_ENDED_REQUESTS, self._peak // 2):
            return False
        self._peak = count
        return True


def find_malloc_trim() -> Callable[[int], int] | None:
    """The C library's `malloc_trim`; None where it has none. It takes milliseconds, without the interpreter's lock."""
    if not sys.platform.startswith("linux"):
        return None
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim
