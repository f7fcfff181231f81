"""Streams the output of an environment's processes as server-sent events.

The output is in files on the deployer's machine, which each stream reads itself. An event `output` has lines of one
process. After a group of them, an event `position` has the ID with which a later request continues.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass

import orjson
from anyio import CancelScope
from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from control_api.live_logs.log_streams import LogStreams, OpenStream, Reader
from control_api.operations.reader_check import ReaderCheck
from control_domain.database.engine import Sessions
from control_domain.deployments.read_output import (
    OutputFilter,
    Running,
    describe_lines,
    find_holder,
    list_running,
    merge_running,
    read_output,
)
from control_domain.process_output import OutputPart, ProcessOutput
from control_domain.projects.find import DeployTarget
from pipeline_contracts.errors import Conflict

_POLL_SECONDS = 0.5
# The interval in which each stream queries the list of running processes.
_LIST_SECONDS = 2.0
# Proxies close connections that are silent for long.
_KEEPALIVE_SECONDS = 15.0
_MAX_STREAM_SECONDS = 900.0
# A reader that does not read for this long is disconnected.
_SEND_TIMEOUT_SECONDS = 30.0
# If one read returns more than this, more output may be waiting.
_LARGE_TEXT = 8 * 1024
_MAX_POSITIONS = 500
_POSITION = re.compile(r"([0-9]{1,10}/[a-z0-9][a-z0-9_-]{0,29}\.[0-9]{1,6})=([0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class FollowedOutput:
    """The output that a stream follows."""

    target: DeployTarget
    reader: Reader
    wanted: OutputFilter
    tail: int
    """The number of lines of each process with which the stream begins, unless it continues another one."""


def read_position(request: Request) -> Mapping[str, int] | None:
    """Return the offsets in `Last-Event-ID`; None without the header, or if its ID belongs to another stream."""
    text = request.headers.get("last-event-id", "")
    found = [_POSITION.fullmatch(part) for part in text.split(",")] if text else []
    if not found or len(found) > _MAX_POSITIONS or None in found:
        return None
    return {match[1]: int(match[2]) for match in found if match is not None}


def stream_output(request: Request, check: ReaderCheck, followed: FollowedOutput) -> Response:
    """Return a response with the output after `Last-Event-ID`, or the last lines, and then each new line; 503 if too
    many streams are open. The caller has checked that the output can be read."""
    state = request.app.state
    return _OutputStreamResponse(
        state.sessions, state.log_streams, check, state.process_output, followed, read_position(request)
    )


class _OutputStreamResponse(Response):
    """Takes one of the streams of `LogStreams` before it sends the headers, and returns it however the response
    ends."""

    def __init__(
        self,
        sessions: Sessions,
        streams: LogStreams,
        check: ReaderCheck,
        output: ProcessOutput,
        followed: FollowedOutput,
        offsets: Mapping[str, int] | None,
    ) -> None:
        super().__init__()
        self._sessions = sessions
        self._streams = streams
        self._check = check
        self._output = output
        self._followed = followed
        self._offsets = offsets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # X-Accel-Buffering: nginx would buffer the events.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

        async def send_in_time(message: Message) -> None:
            # Without a timeout, a reader that stops reading without disconnecting would occupy a stream forever.
            async with asyncio.timeout(_SEND_TIMEOUT_SECONDS):
                await send(message)

        with self._streams.occupying("processes", self._followed.reader) as stream:
            reader = _OutputReader(self._sessions, self._output, self._followed, self._offsets)
            async with aclosing(_events(reader, self._check, self._streams, stream)) as events:
                response = StreamingResponse(events, media_type="text/event-stream", headers=headers)
                # A reader may disconnect or stop reading at any time.
                with suppress(ConnectionError, TimeoutError, ClientDisconnect):
                    await response(scope, receive, send_in_time)


class _OutputReader:
    """Reads the output for one stream. Each read returns only new output."""

    def __init__(
        self,
        sessions: Sessions,
        output: ProcessOutput,
        followed: FollowedOutput,
        offsets: Mapping[str, int] | None,
    ) -> None:
        self._sessions = sessions
        self._output = output
        self._followed = followed
        self._offsets = offsets
        """The offset up to which each output was read; None before the first read of a stream that does not continue
        another."""
        self._is_first = True
        self._holder: str | None = None
        self._running: Running = {}
        self._listed: Running = _list_outputs(offsets or {})
        """Processes to read in addition to the running ones: at first those of the stream that this one continues."""
        self._listed_at = float("-inf")

    async def read(self) -> Sequence[OutputPart]:
        """Return the output since the last call. Raises `Conflict` and `SQLAlchemyError`."""
        followed = self._followed
        now = asyncio.get_running_loop().time()
        if now - self._listed_at >= _LIST_SECONDS:
            async with self._sessions() as session:
                self._holder = await find_holder(session, followed.target.environment)
                present = await list_running(session, followed.target.environment.id)
            # Processes that have ended are read once more, for their last lines.
            self._running, self._listed, self._listed_at = merge_running(self._listed, present), present, now
        return await read_output(
            self._output,
            followed.target,
            self._holder,
            self._running,
            self._offsets or {},
            followed.wanted,
        )

    def take_events(self, parts: Sequence[OutputPart]) -> bytes:
        """Return the events for the output that was read, and advance the offsets; empty without new output."""
        former = self._offsets or {}
        tail = self._followed.tail if self._offsets is None else None
        current = self._running.keys() | {part.deployment_id for part in parts}
        kept = {key: offset for key, offset in former.items() if int(key.partition("/")[0]) in current}
        self._offsets = {**kept, **{part.key: part.offset for part in parts}}
        if not self._is_first and all(former.get(part.key) == part.offset for part in parts):
            return b""
        self._is_first = False
        lines = [describe_lines(part, tail) for part in parts]
        events = [_event("output", {**each}) for each in lines if each["lines"] or each["truncated"]]
        position = ",".join(f"{key}={offset}" for key, offset in self._offsets.items())
        return b"".join([*events, _event("position", {"processes": [part.name for part in parts]}, position)])


def _list_outputs(offsets: Mapping[str, int]) -> Running:
    """Return the processes that have these offsets."""
    listed: dict[int, frozenset[str]] = {}
    for key in offsets:
        number, _, name = key.partition("/")
        listed[int(number)] = listed.get(int(number), frozenset()) | {name}
    return listed


async def _events(
    reader: _OutputReader, check: ReaderCheck, streams: LogStreams, stream: OpenStream
) -> AsyncGenerator[bytes]:
    loop = asyncio.get_running_loop()
    sent_at = loop.time()
    ends_at = sent_at + _MAX_STREAM_SECONDS
    while loop.time() < ends_at and not streams.is_stopping and await check.may_read():
        try:
            # Shielded from the cancellation when the reader leaves: it would leak a database connection that is
            # just being opened.
            with CancelScope(shield=True):
                parts = await reader.read()
        except (SQLAlchemyError, Conflict):
            # When the reader reconnects, the response has the reason.
            return
        events = reader.take_events(parts)
        if events or loop.time() - sent_at >= _KEEPALIVE_SECONDS:
            yield events or b": nothing new\n\n"
            sent_at = loop.time()
        if all(len(part.text) < _LARGE_TEXT for part in parts):
            with suppress(TimeoutError):
                async with asyncio.timeout(_POLL_SECONDS):
                    await stream.changed.wait()


def _event(name: str, document: Mapping[str, object], position: str | None = None) -> bytes:
    # JSON has no raw line breaks, which would end the field.
    id_field = b"" if not position else f"id: {position}\n".encode()
    return b"event: %s\n%sdata: %s\n\n" % (name.encode(), id_field, orjson.dumps(document))
