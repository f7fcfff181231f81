"""The fast path, for requests that arrive in one piece and wait only for the event log.

For each request aiohttp makes two tasks, a request, a response and a writer: half of the cost of a request with one
event (decisions/0056). The fast path makes none of them. All other requests take the usual path, which finds the
request unchanged: those with an error, an uncommon header, a key that has to be looked up, or a slow body.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import NamedTuple

import orjson
from aiohttp import HttpVersion11, StreamReader, hdrs
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import RawRequestMessage
from aiohttp.streams import EMPTY_PAYLOAD
from multidict import CIMultiDictProxy

from ingest_edge.metrics import EdgeMetrics
from ingest_edge.responses import SERVER
from pipeline_contracts.errors import Problem
from pipeline_contracts.identifiers import choose_request_id

logger = logging.getLogger(__name__)

# A stream keeps twice its limit of 64 KiB before it stops reading.
_WHOLE_BYTES = 128 * 1024


class Answer(NamedTuple):
    """A response."""

    status: int
    content_type: str
    headers: Mapping[str, str]
    body: bytes


class Begun(NamedTuple):
    """A request whose record was appended to the log."""

    durable: "asyncio.Future[None]"
    finish: Callable[[], None]
    """Call this once `durable` is done. Raises `Problem` if the record may be lost."""
    answer: Answer
    refuse: Callable[[Problem], Answer]


def refuse(problem: Problem) -> Answer:
    """Return the RFC 9457 response for a problem."""
    document = orjson.dumps(problem.to_document())
    return Answer(problem.status, "application/problem+json", problem.headers, document)


Complete = Callable[[bytes], Begun | None]
"""Begins a request with this body. Returns None if the request takes the usual path; nothing was changed then."""

Begin = Callable[["CIMultiDictProxy[str]"], Complete | None]
"""Checks the headers of a request. Returns None if the request takes the usual path."""


class Arriving(NamedTuple):
    """A request whose head was accepted, and whose body may still be incomplete."""

    route: str
    """The name of the route in the metrics."""
    request_id: str | None
    """That of the client."""
    started: float
    complete: Complete


class Pending(NamedTuple):
    """A request that waits for the log."""

    route: str
    request_id: str
    started: float
    begun: Begun


class FastPath:
    """The paths that have a fast path, for `POST`."""

    def __init__(self, metrics: EdgeMetrics, begins: Mapping[str, tuple[str, Begin]]) -> None:
        """`begins`: the functions that begin a request, by path, with the name of the route."""
        self._metrics = metrics
        self._begins = begins

    def accept_head(self, message: RawRequestMessage, payload: StreamReader) -> Arriving | None:
        """Check the head of a request; None if it takes the usual path."""
        found = self._begins.get(message.path)
        if (
            found is None
            or message.method != "POST"
            or message.version != HttpVersion11
            or message.should_close
            or message.upgrade
            or payload is EMPTY_PAYLOAD
        ):
            return None
        headers = message.headers
        if not payload.is_eof() and not _is_short(headers):
            return None
        started = time.perf_counter()
        route, begin = found
        try:
            complete = begin(headers)
        except Exception:
            # The usual path fails in the same way, and responds.
            logger.exception("the fast path failed")
            return None
        if complete is None:
            return None
        return Arriving(route, headers.get("X-Request-Id"), started, complete)

    def begin(self, arriving: Arriving, payload: StreamReader) -> Pending | None:
        """Begin a request that has arrived; None if it takes the usual path."""
        # Read the body without consuming it, because the usual path may need it.
        pieces = payload._buffer
        try:
            begun = arriving.complete(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        except Exception:
            logger.exception("the fast path failed")
            return None
        if begun is None:
            return None
        # The connection keeps the payload until its next request, and no budget counts these bytes.
        pieces.clear()
        return Pending(arriving.route, choose_request_id(arriving.request_id), arriving.started, begun)

    def end(self, pending: Pending) -> bytes:
        """Return the response to a request whose record is durable, or failed."""
        route, request_id, started, begun = pending
        try:
            begun.finish()
            answer = begun.answer
        except Problem as problem:
            logger.warning("refused: %s", problem.detail, extra={"request_id": request_id})
            answer = begun.refuse(problem)
        response = _encode(answer, request_id)
        self._metrics.observe(route, answer.status, time.perf_counter() - started)
        return response


def _is_short(headers: "CIMultiDictProxy[str]") -> bool:
    """True if the fast path may wait for the rest of a body that is still incomplete."""
    length = headers.get(hdrs.CONTENT_LENGTH)
    return length is not None and hdrs.EXPECT not in headers and int(length) <= _WHOLE_BYTES


_PHRASES = {status.value: status.phrase for status in HTTPStatus}


def _encode(answer: Answer, request_id: str) -> bytes:
    status, content_type, headers, body = answer
    others = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    head = (
        f"HTTP/1.1 {status} {_PHRASES[status]}\r\nContent-Type: {content_type}\r\n{others}"
        f"X-Request-Id: {request_id}\r\nServer: {SERVER}\r\nContent-Length: {len(body)}\r\n"
        f"Date: {rfc822_formatted_time()}\r\n\r\n"
    )
    return head.encode("ascii") + body
