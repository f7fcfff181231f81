"""Tracks open WebSockets and event streams, which have no natural end, to end them when a target is stopped."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from deployer.traffic.interface import Target

# How many seconds both sides have to receive the close frame and to reply.
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
    """The open streams, and how each is ended."""

    def __init__(self) -> None:
        self._streams: set[_Stream] = set()

    @property
    def web_sockets(self) -> int:
        """Return the number of open WebSockets."""
        return sum(stream.is_web_socket for stream in self._streams)

    @contextmanager
    def opened(
        self, environment_id: int, target: Target, end: Callable[[], None], *, is_web_socket: bool
    ) -> Iterator[None]:
        """Track a stream during the block. `end`: a function that begins to end the stream and does not
        wait."""
        stream = _Stream(environment_id, target, end, is_web_socket)
        self._streams.add(stream)
        try:
            yield
        finally:
            self._streams.discard(stream)
            stream.closed.set()

    async def end(self, environment_id: int, target: Target) -> None:
        """End the streams of a target. Return when they have ended, or after a timeout."""
        await _end([s for s in self._streams if (s.environment_id, s.target) == (environment_id, target)])

    async def end_all(self) -> None:
        """End all streams. Return when they have ended, or after a timeout."""
        await _end(list(self._streams))


async def _end(streams: list[_Stream]) -> None:
    for stream in streams:
        stream.end()
    if streams:
        waits = [asyncio.ensure_future(stream.closed.wait()) for stream in streams]
        # Wait a little longer than the timeout of the streams themselves.
        await asyncio.wait(waits, timeout=CLOSING_SECONDS + 0.5)
        for wait in waits:
            wait.cancel()
