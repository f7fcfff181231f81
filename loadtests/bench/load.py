"""The load generator: keep-alive connections that send requests and count responses, as asyncio protocols.

It creates no request or response objects, so that the generator never limits the part under load.
"""

import asyncio
import re
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

MakeRequest = Callable[[int], bytes]
"""A function that returns the request with this number as bytes, with head and body."""

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_TICK = 0.001


class Load:
    """The responses that were received so far. Made by `running_load`."""

    def __init__(self, make_request: MakeRequest, expected: int, first: int, limit: int | None) -> None:
        self.answered = 0
        """Number of expected responses."""
        self.latencies: list[float] = []
        """The latency of each request in seconds: from the time at which it is due to the end of its response. Clear
        the list to start again."""
        self.failures: Counter[str] = Counter()
        """Unexpected responses and lost connections, counted by their text."""
        self.all_answered = asyncio.Event()
        """Set once `limit` requests have a response with any status, or once no connection is left."""
        self._make_request = make_request
        self._expected = b"HTTP/1.1 %d" % expected
        self._number = first
        self._left = limit
        self._open = 0
        self._paced = False
        self._due: deque[float] = deque()
        self._idle: list[_Connection] = []
        self._stopped = False

    def stop(self) -> None:
        """Send no further requests on any connection."""
        self._stopped = True

    async def pace(self, requests_per_second: float) -> None:
        """Make requests due at this rate until cancelled, however fast the responses are (open loop)."""
        begun = time.perf_counter()
        made = 0
        while True:
            # The first request is due immediately.
            due = 1 + int((time.perf_counter() - begun) * requests_per_second)
            for index in range(made, due):
                self._due.append(begun + index / requests_per_second)
            made = due
            while self._due and self._idle:
                self.send_next(self._idle.pop())
            await asyncio.sleep(_TICK)

    def be_paced(self) -> None:
        """Send only due requests from now on."""
        self._paced = True

    def opened(self) -> None:
        """Record that a connection was opened."""
        self._open += 1

    def send_next(self, connection: "_Connection") -> None:
        """Send the next request on an idle connection. If no request is due, keep the connection until one is."""
        if self._stopped or self._left == 0:
            return
        if not self._paced:
            due = time.perf_counter()
        elif self._due:
            due = self._due.popleft()
        else:
            self._idle.append(connection)
            return
        if self._left is not None:
            self._left -= 1
        self._number += 1
        connection.send(self._make_request(self._number - 1), due)

    def take_answer(self, connection: "_Connection", head: bytes, body: bytes, due: float) -> None:
        """Count a response to a request that was due at `due`."""
        if head.startswith(self._expected):
            self.answered += 1
            self.latencies.append(time.perf_counter() - due)
        else:
            status = head[9:12].decode("latin-1")
            self.failures[f"{status} {body[:200].decode(errors='replace')}"] += 1
        self.send_next(connection)
        if self._left == 0 and not connection.waiting:
            self.lost(None)

    def lost(self, reason: str | None) -> None:
        """Record the end of a connection. `reason`: why it ended during a request. None if it ended normally."""
        if reason is not None and not self._stopped:
            self.failures[reason] += 1
        self._open -= 1
        if self._open == 0:
            self.all_answered.set()


class _Connection(asyncio.Protocol):
    """A keep-alive connection with at most one request in flight."""

    def __init__(self, load: Load) -> None:
        self.waiting = False
        self._load = load
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._due = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        self._load.opened()

    def send(self, request: bytes, due: float) -> None:
        """Send the next request on this connection."""
        assert self._transport is not None
        self.waiting = True
        self._due = due
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        if self._buffer:
            data = self._buffer + data
        end = data.find(b"\r\n\r\n")
        if end >= 0:
            found = _LENGTH.search(data, 0, end)
            length = int(found[1]) if found else 0
            if len(data) >= end + 4 + length:
                self._buffer = b""
                self.waiting = False
                self._load.take_answer(self, data[:end], data[end + 4 :], self._due)
                return
        self._buffer = data

    def connection_lost(self, error: Exception | None) -> None:
        if self.waiting:
            self._load.lost(f"connection lost ({error or 'closed by the server'})")

    def close(self) -> None:
        """Close the connection, even during a request."""
        self.waiting = False
        if self._transport is not None:
            self._transport.abort()


@asynccontextmanager
async def running_load(
    port: int,
    make_request: MakeRequest,
    *,
    connections: int,
    expected: int,
    first: int = 0,
    limit: int | None = None,
    per_second: float | None = None,
) -> AsyncIterator[Load]:
    """Send requests to a port of the loopback interface within the context. At the end, all connections are closed.

    Each connection sends its next request immediately after a response (closed loop). With `per_second`, a request is
    sent when it is due, and its latency counts from that time (open loop). Requests are numbered from `first`. After
    `limit` requests, no more are sent.
    """
    loop = asyncio.get_running_loop()
    load = Load(make_request, expected, first, limit)
    if per_second is not None:
        load.be_paced()
    opened: list[_Connection] = []
    pacing: asyncio.Task[None] | None = None
    try:
        for _ in range(connections):
            _, connection = await loop.create_connection(lambda: _Connection(load), "127.0.0.1", port)
            opened.append(connection)
        for connection in opened:
            load.send_next(connection)
        if per_second is not None:
            pacing = asyncio.create_task(load.pace(per_second))
        yield load
    finally:
        load.stop()
        if pacing is not None:
            pacing.cancel()
            await asyncio.wait({pacing})
        for connection in opened:
            connection.close()
        # Transports call their protocols in the next iteration of the event loop.
        await asyncio.sleep(0)
