"""Finds peers that no longer read, and callers that have disconnected while the proxy did not read from them.

asyncio notices the end of a connection by reading from it. While an application does not keep up with an upload, the
proxy does not read from the caller, so the watch checks the kernel's state of the connection instead.
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

_MAX_SECONDS_BETWEEN_SWEEPS = 1.0
_SWEEPS_PER_SILENCE = 4
# The first byte of Linux's `struct tcp_info`.
_TCP_CLOSE = 7
_TCP_CLOSE_WAIT = 8

# After fewer requests, too little memory is left to return.
_ENDED_REQUESTS = 100


class PeerSilent(Exception):
    """The peer has read nothing for too long."""


class WatchedCaller(Protocol):
    """The methods of a `Caller` that a sweep uses."""

    @property
    def has_disconnected_unnoticed(self) -> bool: ...
    def cut(self) -> None: ...


class Watch:
    """Sweeps over the open requests. `silent_seconds`: how long a peer may read nothing of its backlog.

    A peer that reads a byte now and then is slow, not silent, and may take any time.
    """

    def __init__(self, silent_seconds: float, clock: Callable[[], float] | None = None) -> None:
        self.silent_seconds = silent_seconds
        self._clock = clock
        self._backlogs = Backlogs(silent_seconds)
        self._callers: set[WatchedCaller] = set()
        self._memory = MemoryTrim()
        self._trim = find_malloc_trim()
        # Use a thread of its own: slow calls of others in the shared pool must not delay the sweeps.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="trim")

    def enter(self, caller: WatchedCaller) -> None:
        """Watch this caller until `leave`."""
        self._callers.add(caller)

    def leave(self, caller: WatchedCaller) -> None:
        """Stop watching this caller."""
        self._callers.discard(caller)

    async def drain(self, protocol: BaseProtocol) -> None:
        """Wait until the peer has read most of the written bytes. Raises `PeerSilent` and `ConnectionError`.

        Only one task per connection may wait.
        """
        if not protocol.writing_paused:
            return
        if protocol.transport is None:
            raise ConnectionResetError("The connection is closed.")
        # aiohttp's protocol wakes `_drain_waiter`, which may still hold a cancelled waiter.
        waiter = protocol._drain_waiter = asyncio.get_running_loop().create_future()
        backlog = self.begin(protocol.transport, lambda: _fail(waiter))
        try:
            await waiter
        finally:
            self.end(backlog)

    def begin(self, transport: asyncio.WriteTransport, give_up: Callable[[], None]) -> Backlog:
        """Watch the connection's unsent bytes until `end`; call `give_up` if the peer becomes silent."""
        return self._backlogs.begin(transport, give_up, self._now())

    def end(self, backlog: Backlog) -> None:
        """Stop watching the backlog."""
        self._backlogs.end(backlog)

    async def run(self) -> None:
        """Check all connections again and again (sweep) until cancelled."""
        pause = min(self.silent_seconds / _SWEEPS_PER_SILENCE, _MAX_SECONDS_BETWEEN_SWEEPS)
        while True:
            await asyncio.sleep(pause)
            self.sweep()
            if self._trim is not None and self._memory.is_due(len(self._callers)):
                # OSError: the machine has no free thread. The sweeps continue.
                with contextlib.suppress(OSError):
                    await run_in_pool(self._thread, partial(self._trim, 0))

    def sweep(self) -> None:
        """Check each connection once. A failed check does not prevent the others."""
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
    """Return True if the peer has closed or reset its side; False if the kernel does not report it.

    The kernel does not know either if the peer's last bytes do not fit into the receive window.
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
    """Decides when to return memory to the system: after a wave of requests has ended.

    The C library keeps the pages of freed buffers until `malloc_trim` returns them.
    """

    def __init__(self) -> None:
        self._peak = 0

    def is_due(self, count: int) -> bool:
        """Return True if enough requests have ended since the last time to make a trim worthwhile.

        `count`: the number of open requests. Call periodically.
        """
        self._peak = max(self._peak, count)
        if self._peak - count < max(_ENDED_REQUESTS, self._peak // 2):
            return False
        self._peak = count
        return True


def find_malloc_trim() -> Callable[[int], int] | None:
    """Return the C library's `malloc_trim`; None if it has none. A call takes milliseconds, without the GIL."""
    if not sys.platform.startswith("linux"):
        return None
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    return trim
