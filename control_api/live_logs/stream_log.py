"""Streams a deployment's log as server-sent events until the deployment is finished.

Lines are polled from the database, so one process may write them and another may stream them.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress

import orjson
from anyio import CancelScope
from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from control_api.live_logs.log_streams import Follower, LogPosition, LogStreams, Reader
from control_api.operations.reader_check import ReaderCheck
from control_domain.database.engine import Sessions
from control_domain.deployments.describe import describe_line
from control_domain.deployments.operations import LOG_LINE_COLUMNS, LOG_LINES, LogLine, tail_log
from control_domain.tables.deployments import Deployment, DeploymentLine
from pipeline_contracts.deploy_states import FINAL_STATUSES

# Proxies close connections that are silent for long.
_KEEPALIVE_SECONDS = 15.0
# A browser reconnects by itself.
_MAX_STREAM_SECONDS = 900.0
# A reader that does not read for this long is disconnected.
_SEND_TIMEOUT_SECONDS = 30.0
_EVENT_ID = re.compile("[0-9]{1,18}")


def accepts_event_stream(request: Request) -> bool:
    """Return True if `Accept` names event streams and not also JSON."""
    accepted = request.headers.get("accept", "").lower()
    return "text/event-stream" in accepted and "application/json" not in accepted


def stream_log(request: Request, check: ReaderCheck, deployment: Deployment, reader: Reader) -> Response:
    """Return a response with all lines after `Last-Event-ID`, or the last 1,000, and then each new line; 503 if too
    many streams are open."""
    last_event_id = request.headers.get("last-event-id", "")
    return _LogStreamResponse(
        request.app.state.sessions,
        request.app.state.log_streams,
        check,
        deployment.id,
        reader,
        int(last_event_id) if _EVENT_ID.fullmatch(last_event_id) else None,
    )


class _LogStreamResponse(Response):
    """Takes one of the streams of `LogStreams` before it sends the headers, and returns it however the response
    ends."""

    def __init__(
        self,
        sessions: Sessions,
        streams: LogStreams,
        check: ReaderCheck,
        deployment_id: int,
        reader: Reader,
        after: int | None,
    ) -> None:
        super().__init__()
        self._sessions = sessions
        self._streams = streams
        self._check = check
        self._deployment_id, self._reader = deployment_id, reader
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # X-Accel-Buffering: nginx would buffer the events.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

        async def send_in_time(message: Message) -> None:
            # Without a timeout, a reader that stops reading without disconnecting would occupy a stream forever.
            async with asyncio.timeout(_SEND_TIMEOUT_SECONDS):
                await send(message)

        with self._streams.following(self._deployment_id, self._reader) as follower:
            events = _events(self._sessions, self._check, self._streams, follower, self._after)
            async with aclosing(events):
                response = StreamingResponse(events, media_type="text/event-stream", headers=headers)
                # A reader may disconnect or stop reading at any time.
                with suppress(ConnectionError, TimeoutError, ClientDisconnect):
                    await response(scope, receive, send_in_time)


async def _events(
    sessions: Sessions, check: ReaderCheck, streams: LogStreams, follower: Follower, after: int | None
) -> AsyncGenerator[bytes]:
    deployment_id = follower.deployment_id
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + _MAX_STREAM_SECONDS
    sent_status = ""
    while loop.time() < ends_at and not streams.is_stopping and await check.may_read():
        try:
            # Shielded from the cancellation when the reader leaves: it would leak a database connection that is
            # just being opened.
            with CancelScope(shield=True):
                status, lines = await _read_lines(sessions, deployment_id, after)
        except SQLAlchemyError:
            # The reader reconnects, and gets 503 until the database responds again.
            return
        after = lines[-1].id if lines else after or 0
        events = [_event("line", describe_line(line), line.id) for line in lines]
        if status != sent_status:
            events.append(_event("status", {"deployment_id": deployment_id, "status": status}))
            sent_status = status
        yield b"".join(events) or b": nothing new\n\n"
        if len(lines) == LOG_LINES:
            continue
        if status in FINAL_STATUSES:
            return
        await _wait_for_change(streams, follower, (status, after), check.due_at)


async def _wait_for_change(
    streams: LogStreams, follower: Follower, position: LogPosition, check_at: float
) -> None:
    """Wait until the log differs from `position`, the process stops, or a keepalive or a check of the reader is due."""
    follower.position = position
    follower.changed.clear()
    if streams.is_stopping:
        return
    try:
        async with asyncio.timeout_at(min(asyncio.get_running_loop().time() + _KEEPALIVE_SECONDS, check_at)):
            await follower.changed.wait()
    except TimeoutError:
        return


async def _read_lines(
    sessions: Sessions, deployment_id: int, after: int | None
) -> tuple[str, Sequence[LogLine]]:
    """Return the status and the lines after `after`. The status is read first: a finished deployment gets no new
    lines."""
    async with sessions() as session:
        # Account scope: the stream was opened for a deployment of the caller's account.
        status = (
            await session.execute(select(Deployment.status).where(Deployment.id == deployment_id))
        ).scalar_one()
        if after is None:
            return status, (await tail_log(session, deployment_id))[0]
        query = (
            select(*LOG_LINE_COLUMNS)
            .where(DeploymentLine.deployment_id == deployment_id, DeploymentLine.id > after)
            .order_by(DeploymentLine.id)
            .limit(LOG_LINES)
        )
        return status, [LogLine(*row) for row in await session.execute(query)]


def _event(name: str, document: dict[str, object], line_id: int | None = None) -> bytes:
    # JSON has no raw line breaks, which would end the field.
    id_field = b"" if line_id is None else f"id: {line_id}\n".encode()
    return b"event: %s\n%sdata: %s\n\n" % (name.encode(), id_field, orjson.dumps(document))
