"""The proxy's side of a caller's connection: aiohttp's, with bounds on heads, backlogs and connections of an address.

aiohttp bounds each header, but neither their sum nor the time in which a head arrives: who never ends a head, or the
trailers behind a body, would hold megabytes a connection for ever. So would one who sends request after request without
waiting for answers: while one is answered, at most one other is taken.
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
from pipeline_contracts.open_connections import Connections
from pipeline_contracts.settings import Settings

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

# What one read brings may begin with the end of the request before.
_MORE_BYTES = 1024
# Beyond what one read brings. Trailers are not passed on, but the parser keeps them until they end.
_TRAILER_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class CallerLimits:
    """How much of a request's head is held, for how long, and how many connections an address may have.

    All may have half of what the process may open, since each request has a second one to its application; those over
    loopback a quarter.
    """

    head_bytes: int = HEAD_BYTES
    head_seconds: float = 10.0
    address_connections: int = 256
    loopback_connections: int = field(default_factory=lambda: open_file_limit() // 4)
    total_connections: int = field(default_factory=lambda: open_file_limit() // 2)

    @classmethod
    def from_settings(cls, settings: Settings) -> "CallerLimits":
        """Those that the edge has, too."""
        return cls(
            settings.max_head_bytes, settings.head_timeout_seconds, settings.max_connections_per_address
        )


class BoundedServer(web.Server):
    """Makes a `BoundedProtocol` for each connection. `trusts` tells whether an address is a gateway's."""

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
        self.open_connections = Connections(
            limits.address_connections,
            trusts,
            name="connections to applications",
            loopback=limits.loopback_connections,
            total=limits.total_connections,
        )

    def __call__(self) -> RequestHandler:
        return BoundedProtocol(self, loop=self._loop, **self._kwargs)


class BoundedProtocol(RequestHandler):
    """One connection. Bytes that complete no request are a head's, unless the newest request's body is incomplete.

    Those that come before its end and add nothing to it are its trailers', or extensions of its chunks.
    """

    __slots__ = (
        "_payload",
        "_trailer_bytes",
        "_head_bytes",
        "_head_timer",
        "_server",
        "_admitted_address",
        "_backlog",
    )

    def __init__(self, server: BoundedServer, **options: Any) -> None:
        super().__init__(server, **options)
        self._server = server
        # One that waits is enough. aiohttp would read on until 32 do, and again as soon as 16 do.
        self._max_msg_queue_size = 2
        self._msg_queue_resume_size = 0
        self._admitted_address: str | None = None
        self._backlog: Backlog | None = None
        self._payload = EMPTY_PAYLOAD
        self._trailer_bytes = 0
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether it waits for a request, of which a part may have come."""
        return self._waiter is not None and not self._waiter.done()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        try:
            self._admitted_address = self._server.open_connections.enter(transport, self)
        except Unavailable as problem:
            self._refuse_connection(cast(asyncio.Transport, transport), problem)
            return
        # A caller that does not read has nothing further passed on to it.
        bound_buffers(transport, self, 0)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._admitted_address is not None:
            self._server.open_connections.leave(self._admitted_address, self)
            self._admitted_address = None
        self._end_head()
        self._end_backlog()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        # A connection that is being closed, which aiohttp knows no more, has its backlog watched as well.
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
            self._server.open_connections.touch(self)
            self._end_head()
        elif not in_head:
            if body.total_bytes == body_bytes:
                self._count_trailers(data)
            else:
                self._trailer_bytes = 0
        elif not (self._force_close or self._close or self._upgraded or self._buffer_paused):
            self._count_head(data)

    def _hold_pipelined(self) -> None:
        """Read nothing more while a request waits behind one that is answered; `start` of aiohttp reads again."""
        if self._current_request is not None and self._messages and not self._buffer_paused:
            self._pause_reading_for_buffer()

    def _count_trailers(self, data: bytes) -> None:
        self._trailer_bytes += len(data)
        body = self._payload
        if self._trailer_bytes <= _TRAILER_BYTES or body.is_eof() or self._force_close or self._close:
            return
        # Whoever reads the body answers; that answer is the last one, and what still arrives is dropped.
        self._close = True
        self._parser = None
        body.set_exception(web.RequestPayloadError(f"Trailers may have {_TRAILER_BYTES:,} bytes."))
        body.feed_eof()

    def _count_head(self, data: bytes) -> None:
        if not self._head_bytes:
            # Some clients end a body with an empty line; it begins no head.
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
        # What arrives meanwhile is dropped.
        self._force_close = True
        transport.write(_encode_problem(problem))
        transport.close()

    def _refuse(self, problem: Problem) -> None:
        """Answer, unless another request is still being answered, and close: nothing that follows can be told apart."""
        self._end_head()
        if self.transport is not None and self._current_request is None and not self._messages:
            self.transport.write(_encode_problem(problem))
        self.force_close()
        # It holds what has come of the head.
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
