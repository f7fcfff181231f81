"""Extends aiohttp's server with limits for request heads, for unsent data, and for connections from one address.

aiohttp limits the size of each header, but neither the total size nor the time of a head. A caller that never ends a
head, or the trailers after a body, could hold megabytes on each connection forever. A caller that sends request
after request without waiting for responses could do the same: here at most one request waits while another is
handled.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, cast

from aiohttp import web
from aiohttp.streams import EMPTY_PAYLOAD
from aiohttp.web_protocol import RequestHandler

from connection_bounds.backlogs import Backlog
from connection_bounds.bounded_reads import bound_buffers
from deployer.processes.open_files import open_file_limit
from deployer.traffic.proxy.heads import HEAD_BYTES
from deployer.traffic.proxy.refusals import HeadTooLarge, RequestTimeout, Unavailable, build_problem_response
from deployer.traffic.proxy.watch import Watch
from pipeline_contracts.errors import Problem
from pipeline_contracts.open_connections import ConnectionLimiter
from pipeline_contracts.settings import Settings

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

# A read may begin with the end of the previous request, so it may be this much longer than a head.
_MORE_BYTES = 1024
# Maximum size of trailers, in addition to one read. Trailers are not forwarded, but the parser keeps them until they
# end.
_TRAILER_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class CallerLimits:
    """Limits for the size and the time of a request's head, and for the number of connections.

    All connections together may use half of the open file limit, since each request needs a second connection to its
    application; those over loopback a quarter.
    """

    head_bytes: int = HEAD_BYTES
    head_seconds: float = 10.0
    address_connections: int = 256
    loopback_connections: int = field(default_factory=lambda: open_file_limit() // 4)
    total_connections: int = field(default_factory=lambda: open_file_limit() // 2)

    @classmethod
    def from_settings(cls, settings: Settings) -> "CallerLimits":
        """Return the limits that the settings of the ingest edge name."""
        return cls(
            settings.max_head_bytes, settings.head_timeout_seconds, settings.max_connections_per_address
        )


class BoundedServer(web.Server):
    """Creates a `BoundedProtocol` for each connection. `trusts`: returns True for the address of a trusted
    gateway."""

    def __init__(
        self,
        handler: Handler,
        watch: Watch,
        limits: CallerLimits,
        trusts: Callable[[str], bool],
        **options: Any,
    ) -> None:
        super().__init__(handler, **options)
        self.watch = watch
        self.limits = limits
        self.connection_limiter = ConnectionLimiter(
            limits.address_connections,
            trusts,
            name="connections to applications",
            loopback=limits.loopback_connections,
            total=limits.total_connections,
        )

    def __call__(self) -> RequestHandler:
        return BoundedProtocol(self, loop=self._loop, **self._kwargs)


class BoundedProtocol(RequestHandler):
    """One connection. Received bytes that complete no request belong to a head, unless the newest request's body is
    incomplete.

    Bytes that add nothing to an incomplete body belong to its trailers or chunk extensions.
    """

    __slots__ = (
        "_payload",
        "_trailer_bytes",
        "_head_bytes",
        "_head_timer",
        "_server",
        "_limit_key",
        "_backlog",
    )

    def __init__(self, server: BoundedServer, **options: Any) -> None:
        super().__init__(server, **options)
        self._server = server
        # One waiting request is enough. By default, aiohttp reads until 32 requests wait, and resumes at 16.
        self._max_msg_queue_size = 2
        self._msg_queue_resume_size = 0
        self._limit_key: str | None = None
        self._backlog: Backlog | None = None
        self._payload = EMPTY_PAYLOAD
        self._trailer_bytes = 0
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Return True if the connection waits for a request. A part of the request may have arrived."""
        return self._waiter is not None and not self._waiter.done()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        try:
            self._limit_key = self._server.connection_limiter.admit(transport, self)
        except Unavailable as problem:
            self._refuse_connection(cast(asyncio.Transport, transport), problem)
            return
        # Forward nothing more to a caller that does not read what it receives.
        bound_buffers(transport, self, 0)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._limit_key is not None:
            self._server.connection_limiter.release(self._limit_key, self)
            self._limit_key = None
        self._end_head()
        self._end_backlog()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        # Also check the unsent data of a closing connection, which aiohttp no longer does.
        if self.transport is not None:
            self._backlog = self._server.watch.begin(self.transport, self.transport.abort)

    def resume_writing(self) -> None:
        self._end_backlog()
        super().resume_writing()

    def _end_backlog(self) -> None:
        if self._backlog is not None:
            self._server.watch.end(self._backlog)
            self._backlog = None

    def data_received(self, data: bytes) -> None:
        body = self._payload
        in_head = body.is_eof()
        body_bytes = body.total_bytes
        count = self._request_count
        super().data_received(data)
        self._hold_pipelined()
        if self._request_count != count:
            self._payload = self._messages[-1][1]
            self._trailer_bytes = 0
            self._server.connection_limiter.touch(self)
            self._end_head()
        elif not in_head:
            if body.total_bytes == body_bytes:
                self._count_trailers(data)
            else:
                self._trailer_bytes = 0
        elif not (self._force_close or self._close or self._upgraded or self._buffer_paused):
            self._count_head(data)

    def _hold_pipelined(self) -> None:
        """Pause reading while one request waits for another to end. aiohttp's `start` resumes reading."""
        if self._current_request is not None and self._messages and not self._buffer_paused:
            self._pause_reading_for_buffer()

    def _count_trailers(self, data: bytes) -> None:
        self._trailer_bytes += len(data)
        body = self._payload
        if self._trailer_bytes <= _TRAILER_BYTES or body.is_eof() or self._force_close or self._close:
            return
        # The reader of the body responds with the error. That is the last response, and later bytes are dropped.
        self._close = True
        self._parser = None
        body.set_exception(web.RequestPayloadError(f"Trailers may have {_TRAILER_BYTES:,} bytes."))
        body.feed_eof()

    def _count_head(self, data: bytes) -> None:
        if not self._head_bytes:
            # Some clients end a body with an empty line, which begins no head.
            if not data.strip(b"\r\n"):
                return
            self._head_timer = self._loop.call_later(self._server.limits.head_seconds, self._head_is_late)
        self._head_bytes += len(data)
        limit = self._server.limits.head_bytes
        if self._head_bytes > limit + _MORE_BYTES:
            self._refuse(HeadTooLarge(f"Request line and headers may have {limit:,} bytes."))

    def _head_is_late(self) -> None:
        seconds = self._server.limits.head_seconds
        self._refuse(RequestTimeout(f"The head of the request did not arrive within {seconds:g} s."))

    def _refuse_connection(self, transport: asyncio.Transport, problem: Unavailable) -> None:
        # Drop bytes that arrive until the connection is closed.
        self._force_close = True
        transport.write(_encode_problem(problem))
        transport.close()

    def _refuse(self, problem: Problem) -> None:
        """Send an error response, unless another request is still in flight, and close the connection: later bytes
        cannot be parsed."""
        self._end_head()
        if self.transport is not None and self._current_request is None and not self._messages:
            self.transport.write(_encode_problem(problem))
        self.force_close()
        # Free the received part of the head.
        self._parser = None

    def _end_head(self) -> None:
        self._head_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def _encode_problem(problem: Problem) -> bytes:
    response = build_problem_response(problem)
    body = response.body
    assert isinstance(body, bytes)
    head = (
        f"HTTP/1.1 {problem.status} {problem.title}\r\nContent-Type: application/problem+json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n"
        + "".join(f"{name}: {value}\r\n" for name, value in problem.headers.items())
    )
    return head.encode() + b"\r\n" + body
