"""The WebSockets and event streams that are open: they end only when somebody ends them."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from deployer.traffic.interface import Target

# How long both sides have to take the end and to answer it.
CLOSING_SECONDS = 2.0


class _Stream:
    __slots__ = ("closed", "end", "environment_id", "is_web_socket", "target")

    def __init__(
        self, environment_id: int, target: Target, end: Callable[[], None], is_web_socket: bool
    ) -> None:
        self.environment_id = environment_id
        self.target = target
        self.end = end
        self.is_web_socket = is_web_socket
        self.closed = asyncio.Event()


class OpenStreams:
    """Keeps how each is ended."""

    def __init__(self) -> None:
        self._streams: set[_Stream] = set()

    @property
    def web_sockets(self) -> int:
        """How many of them are WebSockets."""
        return sum(one.is_web_socket for one in self._streams)

    @contextmanager
    def opened(
        self, environment_id: int, target: Target, end: Callable[[], None], *, is_web_socket: bool
    ) -> Iterator[None]:
        """Keep a stream while the block runs. `end` begins its end, and does not wait for it."""
        stream = _Stream(environment_id, target, end, is_web_socket)
        self._streams.add(stream)
        try:
            yield
        finally:
            self._streams.discard(stream)
            stream.closed.set()

    async def end(self, environment_id: int, target: Target) -> None:
        """End those of a target; returns when they have ended, or have had the time for it."""
        await _end([s for s in self._streams if (s.environment_id, s.target) == (environment_id, target)])

    async def end_all(self) -> None:
        """End all; returns when they have ended, or have had the time for it."""
        await _end(list(self._streams))


async def _end(streams: list[_Stream]) -> None:
    for stream in streams:
        stream.end()
    if streams:
        waits = [asyncio.ensure_future(stream.closed.wait()) for stream in streams]
        # A little longer, for those that are closed when their own time is over.
        await asyncio.wait(waits, timeout=CLOSING_SECONDS + 0.5)
        for wait in waits:
            wait.cancel()
