"""uvicorn's HTTP protocol for the control plane, with limits for request heads, chunks and connections, and problem
documents for requests that are not HTTP."""

import asyncio
import sys
from typing import Any

import h11
import orjson
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol

from connection_bounds.backlogs import Backlog, BacklogSweeper
from connection_bounds.bounded_reads import bound_buffers
from ingest_edge.http_server import ServerLimits
from ingest_edge.responses import raw_response
from ingest_edge.unreadable_requests import head_is_late, head_too_large, small_chunks, unreadable_request
from pipeline_contracts.errors import Problem, Unavailable
from pipeline_contracts.identifiers import choose_request_id
from pipeline_contracts.open_connections import ConnectionLimiter

# The same time as on the edge.
_IDLE_SECONDS = 75.0
# h11 needs 20 to 30 µs for a chunk of any size. Clients that send a document in a few pieces stay far below the limit.
_FREE_CHUNKS = 1024
_MEAN_CHUNK_BYTES = 64


class SmallChunks(h11.RemoteProtocolError):
    """A body has too many small chunks."""


class BoundedConnection(h11.Connection):
    """Refuses bodies of many small chunks: 64 KiB of one-byte chunks would block all other requests for 0.25 s."""

    _chunks = 0
    _chunk_bytes = 0

    def next_event(self) -> Any:
        """Return the next event as h11 does. Raises `SmallChunks`."""
        event = super().next_event()
        if type(event) is h11.Data:
            self._chunks += event.chunk_end
            self._chunk_bytes += len(event.data)
            if self._chunk_bytes < (self._chunks - _FREE_CHUNKS) * _MEAN_CHUNK_BYTES:
                raise SmallChunks("The chunks of the body are too small.")
        elif type(event) is h11.Request:
            self._chunks = self._chunk_bytes = 0
        return event


def bounded_protocol(limits: ServerLimits) -> type[H11Protocol]:
    """Return the protocol class of one server, whose connections share one limiter."""
    limiter = ConnectionLimiter(
        limits.address_connections,
        limits.trusted.is_trusted,
        loopback=limits.loopback_connections,
        total=limits.total_connections,
    )

    backlog_sweeper = BacklogSweeper(limits.silent_seconds)

    class Protocol(BoundedProtocol):
        _limits = limits
        _limiter = limiter
        _backlog_sweeper = backlog_sweeper

    return Protocol


class BoundedProtocol(H11Protocol):
    """One connection. h11 itself limits the size of a head; this class limits the time until a head is complete."""

    _limits: ServerLimits
    _limiter: ConnectionLimiter
    _backlog_sweeper: BacklogSweeper
    _limit_key: str | None = None
    _backlog: Backlog | None = None
    _head_timer: asyncio.TimerHandle | None = None

    def __init__(self, config: Config, *arguments: Any, **options: Any) -> None:
        super().__init__(config, *arguments, **options)
        self.conn = BoundedConnection(h11.SERVER, self._limits.head_bytes)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        try:
            self._limit_key = self._limiter.admit(transport, self)
        except Unavailable as problem:
            transport.write(raw_response(problem))
            transport.close()
            return
        bound_buffers(transport, self, 0)
        # uvicorn closes idle connections only after their first response.
        self.timeout_keep_alive_task = self.loop.call_later(_IDLE_SECONDS, transport.close)

    @property
    def is_idle(self) -> bool:
        """True if all responses are sent and the connection waits for a request, which may have arrived in part."""
        return (self.cycle is None or self.cycle.response_complete) and not self.flow.write_paused

    def force_close(self) -> None:
        """Close the connection, because another one needs its slot."""
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._limit_key is not None:
            self._limiter.release(self._limit_key, self)
            self._limit_key = None
        self._end_head()
        self._end_backlog()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._backlog = self._backlog_sweeper.begin(self.transport)

    def resume_writing(self) -> None:
        self._end_backlog()
        super().resume_writing()

    def _end_backlog(self) -> None:
        if self._backlog is not None:
            self._backlog_sweeper.end(self._backlog)
            self._backlog = None

    def data_received(self, data: bytes) -> None:
        if self._limit_key is not None and not self.transport.is_closing():
            super().data_received(data)
            self._watch_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._limiter.touch(self)
        # The next request may have started during this response.
        self._watch_head()

    def _watch_head(self) -> None:
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0].strip(b"\r\n"):
            if self._head_timer is None:
                self._head_timer = self.loop.call_later(self._limits.head_seconds, self._head_is_late)
        else:
            self._end_head()

    def _end_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._refuse(head_is_late(self._limits.head_seconds))

    def send_400_response(self, msg: str) -> None:
        """Respond to a request that h11 could not parse. Called while its error is being handled."""
        error = sys.exception()
        if isinstance(error, h11.RemoteProtocolError) and error.error_status_hint == 431:
            self._refuse(head_too_large(self._limits.head_bytes))
        elif isinstance(error, SmallChunks):
            self._refuse(small_chunks(_MEAN_CHUNK_BYTES))
        else:
            self._refuse(unreadable_request())

    def _refuse(self, problem: Problem) -> None:
        self._end_head()
        if self.transport.is_closing():
            return
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.write(b"".join(self._response(problem)))
        # Otherwise a response has begun and can only be cut off.
        self.transport.close()
        if self.cycle is not None and not self.cycle.response_complete:
            # Discard what the application still sends.
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def _response(self, problem: Problem) -> list[bytes]:
        body = orjson.dumps(problem.to_document())
        headers = [
            (b"content-type", b"application/problem+json"),
            (b"content-length", b"%d" % len(body)),
            (b"x-request-id", choose_request_id(None).encode()),
            (b"connection", b"close"),
        ]
        reason = problem.title.encode()
        events: list[Any] = [
            h11.Response(status_code=problem.status, headers=headers, reason=reason),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ]
        return [self.conn.send(event) or b"" for event in events]
