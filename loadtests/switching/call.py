"""Sends a request and records its result. It uses a bare connection, because a client library could hide a failure by
a retry."""

import asyncio
import json
import re
from collections import deque
from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["GET", "POST", "stream"]
_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CLOSES = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)
# The proxy holds a request for at most thirty seconds, so the caller waits longer than that.
_PATIENCE_SECONDS = 45.0


@dataclass(slots=True)
class Call:
    """A request and its result. Times are values of `time.perf_counter`."""

    kind: Kind
    path: str
    body: bytes
    asked_seconds: float
    """How many seconds the application itself takes. The latency does not include them."""
    planned: float
    sent: float = 0.0
    ended: float = 0.0
    version: str | None = None
    """The version of the release that responded."""
    port: int | None = None
    """The port of the process that responded. Each start gets a new port, but every process has the ID 2 in its own
    namespace."""
    failure: str | None = None
    is_repeated: bool = False
    """True for a GET that was sent a second time, as clients do, because the server closed its kept connection at that
    moment."""

    @property
    def latency(self) -> float:
        """Return the seconds from when the request was due to the end of the response."""
        return self.ended - self.planned - self.asked_seconds


class _Unanswered(ConnectionError):
    """The connection ended before the first byte of a response."""


class Caller:
    """Sends requests for one host to a port of this machine, on kept and on new connections."""

    def __init__(self, port: int, host: str) -> None:
        self._port = port
        self._host = host
        self._idle: deque[_Connection] = deque()

    async def make(self, call: Call, now: Any, *, keeps: bool) -> None:
        """Send the request, and record its result in `call`. `now`: the clock. `keeps`: True to use a kept
        connection."""
        call.sent = now()
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                answer = await self._exchange(call, keeps)
            _read_answer(call, *answer)
        except TimeoutError:
            call.failure = f"no response within {_PATIENCE_SECONDS:.0f} s"
        except (OSError, EOFError, ValueError) as error:
            call.failure = f"{type(error).__name__}: {error}"
        call.ended = now()

    def close(self) -> None:
        """Close the kept connections."""
        while self._idle:
            self._idle.pop()[1].close()

    def _write(self, call: Call, keeps: bool) -> bytes:
        method = "POST" if call.kind == "POST" else "GET"
        lines = [f"{method} {call.path} HTTP/1.1", f"Host: {self._host}"]
        if call.kind == "POST":
            lines.append(f"Content-Length: {len(call.body)}")
        if not keeps:
            lines.append("Connection: close")
        return "\r\n".join((*lines, "", "")).encode() + call.body

    async def _exchange(self, call: Call, keeps: bool) -> tuple[int, bytes]:
        request = self._write(call, keeps)
        kept = self._take_idle() if keeps else None
        if kept is not None:
            try:
                return await self._exchange_on(kept, request, keeps)
            except _Unanswered:
                # A GET may be repeated, whether or not the first one was processed (RFC 9110, section 9.2.2).
                if call.kind != "GET":
                    raise
                call.is_repeated = True
        fresh = await asyncio.open_connection("127.0.0.1", self._port)
        return await self._exchange_on(fresh, request, keeps)

    async def _exchange_on(self, connection: _Connection, request: bytes, keeps: bool) -> tuple[int, bytes]:
        reader, writer = connection
        is_kept = False
        try:
            writer.write(request)
            head = await _read_head(reader)
            body = await _read_body(reader, head)
            is_kept = keeps and _CLOSES.search(head) is None
            return int(head[9:12]), body
        finally:
            if is_kept:
                self._idle.append(connection)
            else:
                writer.close()

    def _take_idle(self) -> _Connection | None:
        while self._idle:
            reader, writer = self._idle.popleft()
            # A server may close an idle connection (RFC 9112, section 9.5), so clients check this before they write.
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        return None


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        raise _Unanswered("closed without a response") from None
    except ConnectionError as error:
        raise _Unanswered(str(error)) from None


async def _read_body(reader: asyncio.StreamReader, head: bytes) -> bytes:
    if (length := _LENGTH.search(head)) is not None:
        return await reader.readexactly(int(length[1]))
    pieces = []
    while size := int(await reader.readuntil(b"\r\n"), 16):
        pieces.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readexactly(2)
    return b"".join(pieces)


def _read_answer(call: Call, status: int, body: bytes) -> None:
    """Read the version and the process from the response. Raises ValueError for a response that the application did
    not write."""
    if status != 200:
        call.failure = f"{status} {body[:160].decode(errors='replace')}"
    elif call.kind == "stream":
        events = body.decode().replace("data: ", "").split()
        if events[-1:] != ["end"] or len(set(events)) > 2:
            call.failure = f"a stream that is not whole: {' '.join(events)}"
        call.version = events[0]
    else:
        answer = json.loads(body)
        call.version, call.port = answer["version"], answer["port"]
        if answer["echo"] != call.body.decode():
            call.failure = "another body than the one that was sent"
