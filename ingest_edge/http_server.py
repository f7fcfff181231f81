"""The edge's HTTP server: aiohttp's, with limits of heads and connections, and problems for unreadable requests.

aiohttp limits each header, but neither their sum nor the time in which a head arrives. Both are checked here on the
received bytes, so that a request whose head arrives in one piece costs only two comparisons more.
"""

import asyncio
import re
import resource
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from aiohttp import StreamReader, hdrs, web
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import EMPTY_PAYLOAD
from aiohttp.web_protocol import RequestHandler, _ErrInfo

from connection_bounds.backlogs import Backlog, BacklogSweeper
from connection_bounds.bounded_reads import bound_buffers
from ingest_edge.fast_path import Arriving, FastPath, Pending
from ingest_edge.responses import raw_response
from ingest_edge.unreadable_requests import problem_for_error
from pipeline_contracts.client_address import ClientAddresses, parse_trusted_proxies
from pipeline_contracts.errors import Problem, Unavailable
from pipeline_contracts.open_connections import ConnectionLimiter
from pipeline_contracts.settings import Settings

RefuseUnreadable = Callable[[web.BaseRequest, str, Problem], web.StreamResponse]
"""Builds the response to an unreadable request; the text is the part of its path that could be read."""

# The assumed limit of open files if the system has none.
_OPEN_FILES = 65_536
# Number of bytes of a head that are searched for its path.
_START_BYTES = 512
_REQUEST_LINE = re.compile(rb"[\r\n]*([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([^ \r\n]+) HTTP/1\.[01]\r?\n")
# Trailers are not used, but the parser keeps them until they end.
_TRAILER_BYTES = 16 * 1024
# The fast path waits this long for the rest of a body; aiohttp's handler then reads it with the limits of slow bodies.
_ARRIVAL_SECONDS = 0.05
# Between two headers: colon, space, line end.
_BETWEEN = 4


def _max_open_files() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _OPEN_FILES if soft == resource.RLIM_INFINITY else soft


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of a request head's size and time, and of the connections of an address.

    All connections together may use three quarters of the process's file descriptors, those over loopback half of the
    descriptors. The server aborts a connection whose peer acknowledges no byte of a response for `silent_seconds`.
    """

    head_bytes: int
    head_seconds: float
    address_connections: int
    trusted: ClientAddresses
    loopback_connections: int = field(default_factory=lambda: _max_open_files() // 2)
    total_connections: int = field(default_factory=lambda: _max_open_files() * 3 // 4)
    silent_seconds: float = 120.0

    @classmethod
    def from_settings(cls, settings: Settings) -> "ServerLimits":
        """Raises `BadSettings`."""
        return cls(
            settings.max_head_bytes,
            settings.head_timeout_seconds,
            settings.max_connections_per_address,
            parse_trusted_proxies(settings.trusted_proxies),
        )


class BoundedServer(web.Server):
    """A server with a `BoundedProtocol` for each connection."""

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Any],
        refuse: RefuseUnreadable,
        limits: ServerLimits,
        fast_path: FastPath,
        **options: Any,
    ) -> None:
        super().__init__(handler, **options)
        self.fast_path = fast_path
        self.refuse = refuse
        self.limits = limits
        self.connection_limiter = ConnectionLimiter(
            limits.address_connections,
            limits.trusted.is_trusted,
            loopback=limits.loopback_connections,
            total=limits.total_connections,
        )
        self.backlog_sweeper = BacklogSweeper(limits.silent_seconds)

    def __call__(self) -> RequestHandler:
        return BoundedProtocol(self, loop=self._loop, **self._kwargs)


class BoundedProtocol(RequestHandler):
    """One connection. Bytes belong to a head unless the newest request's body is still incomplete.

    Bytes of the next head that arrive in one piece with the end of a request are not counted: they are fewer than the
    limit of a head, and the timeout of idle connections limits how long they are kept.
    """

    __slots__ = (
        "_server",
        "_limits",
        "_limit_key",
        "_backlog",
        "_payload",
        "_message",
        "_head_bytes",
        "_trailer_bytes",
        "_head_start",
        "_head_timer",
        "_gave_up",
        "_arriving",
        "_arrival_timer",
        "_pending",
    )

    def __init__(self, server: BoundedServer, **options: Any) -> None:
        super().__init__(server, **options)
        self._server = server
        self._limits = server.limits
        # One further request may wait while one is in progress. aiohttp allows 32 waiting ones, each with a whole head.
        self._max_msg_queue_size = 2
        self._msg_queue_resume_size = 0
        self._limit_key: str | None = None
        self._backlog: Backlog | None = None
        self._head_bytes = 0
        self._trailer_bytes = 0
        self._head_start = b""
        self._head_timer: asyncio.TimerHandle | None = None
        self._payload = EMPTY_PAYLOAD
        self._message: RawRequestMessage | None = None
        self._gave_up = False
        # A request on the fast path, which aiohttp does not know about.
        self._arriving: Arriving | None = None
        self._arrival_timer: asyncio.TimerHandle
        self._pending: Pending | None = None

    @property
    def is_idle(self) -> bool:
        """True if all responses are sent and the connection waits for a request, which may have arrived in part."""
        waits = self._waiter is not None and not self._waiter.done()
        return waits and self._pending is None and self._arriving is None and not self.writing_paused

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        try:
            self._limit_key = self._server.connection_limiter.admit(transport, self)
        except Unavailable as problem:
            # aiohttp then drops all bytes that still arrive.
            self._force_close = True
            cast(asyncio.Transport, transport).write(raw_response(problem))
            cast(asyncio.Transport, transport).close()
            return
        bound_buffers(transport, self, 0)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._limit_key is not None:
            self._server.connection_limiter.release(self._limit_key, self)
            self._limit_key = None
        self._end_head()
        self._end_arrival()
        self._end_backlog()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        # Watch the transport until the connection is lost: aiohttp drops its reference when the close begins.
        if self.transport is not None:
            self._backlog = self._server.backlog_sweeper.begin(self.transport)

    def resume_writing(self) -> None:
        self._end_backlog()
        super().resume_writing()

    def _end_backlog(self) -> None:
        if self._backlog is not None:
            self._server.backlog_sweeper.end(self._backlog)
            self._backlog = None

    def data_received(self, data: bytes) -> None:
        # In pieces, so that the part of a head that the parser keeps stays bounded.
        while len(data) > self._limits.head_bytes and not (self._gave_up or self._buffer_paused):
            size = self._piece_bytes()
            self._feed(data[:size])
            data = data[size:]
        self._feed(data)

    def _piece_bytes(self) -> int:
        """Return the size of the next piece for the parser: the rest of a body, or the limit of a head."""
        head_bytes = self._limits.head_bytes
        if self._payload.is_eof() or self._message is None:
            return head_bytes
        length = self._message.headers.get(hdrs.CONTENT_LENGTH)
        return head_bytes if length is None else max(1, int(length) - self._payload.total_bytes)

    def _feed(self, data: bytes) -> None:
        if self._gave_up:
            return
        # Without its waiter aiohttp leaves new requests in the queue.
        waiter, self._waiter = self._waiter, None
        try:
            self._parse(data)
        finally:
            self._waiter = waiter
        self._handle_next()

    def _parse(self, data: bytes) -> None:
        body = self._payload
        in_head = body.is_eof()
        body_bytes = body.total_bytes
        count = self._request_count
        super().data_received(data)
        new = self._request_count - count
        if new:
            if self._request_in_progress and not self._buffer_paused:
                # aiohttp's `start` resumes reading once it has taken the waiting request.
                self._pause_reading_for_buffer()
            message, self._payload = self._messages[-1]
            if isinstance(message, _ErrInfo):
                # The traceback would keep this call's frame, with `data`, alive until the next garbage collection.
                message.exc.__traceback__ = None
                if not in_head:
                    # The handler responds instead of aiohttp.
                    self._messages.pop()
                    self._fail_body(body)
                self._give_up(data if in_head else b"")
                return
            self._message = message
            self._trailer_bytes = 0
            self._server.connection_limiter.touch(self)
            if self._head_bytes:
                if self._head_bytes + len(data) > self._limits.head_bytes and self._has_large_head(new):
                    for _ in range(new):
                        self._messages.pop()
                    self._refuse(HttpProcessingError(code=431))
                    return
                self._end_head()
        elif in_head and data:
            self._count_head(data)
        elif not body.is_eof():
            # Bytes that do not extend an unfinished body are trailers, or extensions of chunks.
            self._trailer_bytes = self._trailer_bytes + len(data) if body.total_bytes == body_bytes else 0
            if self._trailer_bytes > _TRAILER_BYTES:
                self._fail_body(body)
                self._give_up(b"")

    def _handle_next(self) -> None:
        """Begin the next request, unless one is in progress: on the fast path if that is possible, else by aiohttp."""
        waiter = self._waiter
        if not self._messages or waiter is None or waiter.done() or self._pending is not None:
            return
        message, payload = self._messages[0]
        arriving = self._arriving
        if arriving is None and not (
            isinstance(message, _ErrInfo) or self.writing_paused or self._parser is None
        ):
            arriving = self._server.fast_path.accept_head(message, payload)
        if arriving is None or payload.exception() is not None:
            self._leave_fast_path()
        elif payload.is_eof():
            pending = self._server.fast_path.begin(arriving, payload)
            if pending is None:
                self._leave_fast_path()
            else:
                self._wait_for_log(pending)
        elif self._arriving is None:
            self._arriving = arriving
            self._arrival_timer = self._loop.call_later(_ARRIVAL_SECONDS, self._leave_fast_path)
            if self._buffer_paused:
                # While another request was in progress. The rest of the body would not arrive.
                self._resume_reading_if_drained()

    def _end_arrival(self) -> None:
        if self._arriving is not None:
            self._arriving = None
            self._arrival_timer.cancel()

    def _leave_fast_path(self) -> None:
        """Let aiohttp handle the next request."""
        self._end_arrival()
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _wait_for_log(self, pending: Pending) -> None:
        self._end_arrival()
        # As aiohttp's `start` does.
        self._messages.popleft()
        assert self._parser is not None
        self._parser.message_consumed()
        self._server.requests_count += 1
        self._request_in_progress = True
        self._pending = pending
        pending.begun.durable.add_done_callback(self._end_fast)
        if self._buffer_paused and len(self._messages) <= self._msg_queue_resume_size:
            self._resume_reading_if_drained()

    def _process_keepalive(self) -> None:
        if self._pending is not None or self._arriving is not None:
            # aiohttp would treat the connection as idle, and close it.
            self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        super()._process_keepalive()

    def _end_fast(self, _durable: "asyncio.Future[None]") -> None:
        """Respond, and begin the next request."""
        pending, self._pending = self._pending, None
        assert pending is not None
        try:
            response = self._server.fast_path.end(pending)
        except Exception:
            self.log_exception("a request failed")
            self.force_close()
        if self.transport is not None:
            self.transport.write(response)
        self._request_in_progress = False
        if self._handler_waiter is not None:
            # The server is shutting down, and waits for this request.
            self._handler_waiter.set_result(None)
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        self._handle_next()

    def _fail_body(self, body: StreamReader) -> None:
        """Make the handler that reads this body fail and respond now. aiohttp would let it wait."""
        body.set_exception(web.RequestPayloadError("The transfer coding is broken."))
        body.feed_eof()
        # Close the connection after this response.
        self._close = True

    def _count_head(self, data: bytes) -> None:
        """Count bytes of a head that is not complete yet."""
        if self._force_close or self._close or self._upgraded or self._buffer_paused:
            # While reading is paused, whole requests may wait in the parser: at most the bytes of one read.
            return
        if not self._head_bytes:
            # Some clients end a body with an empty line, which is not the start of a head.
            if not data.strip(b"\r\n"):
                return
            self._head_start = data[:_START_BYTES]
            self._head_timer = self._loop.call_later(self._limits.head_seconds, self._head_is_late)
        self._head_bytes += len(data)
        if self._head_bytes > self._limits.head_bytes:
            self._refuse(HttpProcessingError(code=431))

    def _has_large_head(self, new: int) -> bool:
        """True if one of the `new` last messages has a head over the limit."""
        for message, _ in list(self._messages)[-new:]:
            assert not isinstance(message, _ErrInfo)
            size = sum(len(name) + len(value) + _BETWEEN for name, value in message.raw_headers)
            if len(message.path) + size > self._limits.head_bytes:
                return True
        return False

    def _head_is_late(self) -> None:
        self._refuse(HttpProcessingError(code=408))

    def _refuse(self, error: HttpProcessingError) -> None:
        """Respond to the incomplete head with an error, after the requests before it, and stop reading."""
        self._request_count += 1
        self._messages.append((_ErrInfo(status=error.code, exc=error, message=""), EMPTY_PAYLOAD))
        self._give_up(b"")
        self._handle_next()

    def _give_up(self, data: bytes) -> None:
        """Drop all further bytes: after an unreadable head, the start of the next request is unknown."""
        start = self._head_start or data[:_START_BYTES]
        self._end_head()
        self._head_start = start
        self._gave_up = True
        # The parser keeps the received part of the head in memory.
        self._parser = None

    def _end_head(self) -> None:
        self._head_bytes = 0
        self._head_start = b""
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Respond to an unreadable request, or for a handler that failed, and close the connection."""
        self.log_exception("a request failed", exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("The response has begun already.")
        line = _REQUEST_LINE.match(self._head_start)
        method = b"" if line is None else line[1]
        problem = problem_for_error(exc, self._limits.head_bytes, self._limits.head_seconds, method)
        path = line[2].partition(b"?")[0].decode("latin-1") if line is not None else ""
        response = self._server.refuse(request, path, problem)
        # Explicit, because aiohttp responds to an unreadable request as HTTP/1.0.
        response.headers[hdrs.CONNECTION] = "close"
        response.force_close()
        return response
