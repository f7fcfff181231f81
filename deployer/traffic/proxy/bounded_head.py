"""The proxy's side of a connection: aiohttp's, with bounds on a request's head before it is complete.

aiohttp bounds each header, but neither their sum nor the time in which a head arrives: who never ends a head would hold
two megabytes a connection for ever.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.streams import EMPTY_PAYLOAD
from aiohttp.web_protocol import RequestHandler

from deployer.traffic.proxy.bounded_reads import bound_buffers
from deployer.traffic.proxy.heads import HEAD_BYTES
from deployer.traffic.proxy.refusals import HeadTooLarge, RequestTimeout, answer_refusal
from deployer.traffic.proxy.watch import Backlog, Watch
from pipeline_contracts.errors import Problem

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

HEAD_SECONDS = 10.0
# What one read brings may begin with the end of the request before.
_MOST_BYTES = HEAD_BYTES + 1024


class BoundedServer(web.Server):
    """Makes a `BoundedProtocol` for each connection."""

    def __init__(self, handler: Handler, watch: Watch, **options: Any) -> None:
        super().__init__(handler, **options)
        self.watch = watch

    def __call__(self) -> RequestHandler:
        return BoundedProtocol(self, loop=self._loop, **self._kwargs)


class BoundedProtocol(RequestHandler):
    """One connection. Bytes that complete no request are a head's, unless the newest request's body is incomplete."""

    __slots__ = ("_payload", "_head_bytes", "_head_timer", "_watch", "_backlog")

    def __init__(self, server: BoundedServer, **options: Any) -> None:
        super().__init__(server, **options)
        self._watch = server.watch
        self._backlog: Backlog | None = None
        self._payload = EMPTY_PAYLOAD
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A caller that does not read has nothing further passed on to it.
        bound_buffers(transport, self, 0)
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._end_head()
        self._end_backlog()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        # A connection that is being closed, which aiohttp knows no more, has its backlog watched as well.
        if self.transport is not None:
            self._backlog = self._watch.begin(self.transport, self.transport.abort)

    def resume_writing(self) -> None:
        self._end_backlog()
        super().resume_writing()

    def _end_backlog(self) -> None:
        if self._backlog is not None:
            self._watch.end(self._backlog)
            self._backlog = None

    def data_received(self, data: bytes) -> None:
        in_head = self._payload.is_eof()
        count = self._request_count
        super().data_received(data)
        if self._request_count != count:
            self._payload = self._messages[-1][1]
            self._end_head()
        elif in_head and not (self._force_close or self._close or self._upgraded or self._buffer_paused):
            self._count_head(data)

    def _count_head(self, data: bytes) -> None:
        if not self._head_bytes:
            # Some clients end a body with an empty line; it begins no head.
            if not data.strip(b"\r\n"):
                return
            self._head_timer = self._loop.call_later(HEAD_SECONDS, self._head_is_late)
        self._head_bytes += len(data)
        if self._head_bytes > _MOST_BYTES:
            self._refuse(HeadTooLarge(f"Request line and headers may have {HEAD_BYTES:,} bytes."))

    def _head_is_late(self) -> None:
        self._refuse(RequestTimeout(f"The head of the request did not arrive within {HEAD_SECONDS:g} s."))

    def _refuse(self, problem: Problem) -> None:
        """Answer, unless another request is still being answered, and close: nothing that follows can be told apart."""
        self._end_head()
        if self.transport is not None and self._current_request is None and not self._messages:
            self.transport.write(_raw(problem))
        self.force_close()
        # It holds what has come of the head.
        self._parser = None

    def _end_head(self) -> None:
        self._head_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def _raw(problem: Problem) -> bytes:
    answer = answer_refusal(problem)
    body = answer.body
    assert isinstance(body, bytes)
    head = (
        f"HTTP/1.1 {problem.status} {problem.title}\r\nContent-Type: application/problem+json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
