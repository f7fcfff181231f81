"""A deployment's log as server-sent events, live, until the deployment is finished.

Lines are looked for in the database, so any process may write them and any other show them.
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

from control_api.live_logs.log_streams import Follower, LogStreams, Seen
from control_domain.database.engine import Sessions
from control_domain.deployments.describe import describe_line
from control_domain.deployments.operations import LOG_LINE_COLUMNS, LOG_LINES, LogLine, tail_log
from control_domain.tables.deployments import Deployment, DeploymentLine
from pipeline_contracts.deploy_states import FINAL_STATUSES

# Proxies close what is silent for long.
_SILENCE_SECONDS = 15.0
# A browser comes back by itself, and its token is looked at again.
_LONGEST_SECONDS = 900.0
# A reader that takes nothing for this long loses its place.
_SEND_SECONDS = 30.0
_EVENT_ID = re.compile("[0-9]{1,18}")


def wants_stream(request: Request) -> bool:
    """Whether the caller asks for events: `Accept` names them, and not JSON as well."""
    accepted = request.headers.get("accept", "").lower()
    return "text/event-stream" in accepted and "application/json" not in accepted


def follow(request: Request, deployment: Deployment) -> Response:
    """All lines behind `Last-Event-ID`, or the last 1,000, and each that is added; 503 where too many are open."""
    given = request.headers.get("last-event-id", "")
    return _LiveLog(
        request.app.state.sessions,
        request.app.state.log_streams,
        deployment,
        int(given) if _EVENT_ID.fullmatch(given) else None,
    )


class _LiveLog(Response):
    """Has its place among the live logs before anything is answered, and gives it up however the sending ends."""

    def __init__(
        self, sessions: Sessions, streams: LogStreams, deployment: Deployment, after: int | None
    ) -> None:
        super().__init__()
        self._sessions = sessions
        self._streams = streams
        self._deployment_id, self._account_id = deployment.id, deployment.account_id
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # X-Accel-Buffering: nginx would keep the events back.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

        async def send_within(message: Message) -> None:
            # Only a read or a disconnect ends the wait: without a timeout, a silent reader keeps its place for ever.
            async with asyncio.timeout(_SEND_SECONDS):
                await send(message)

        with self._streams.following(self._deployment_id, self._account_id) as follower:
            async with aclosing(_send(self._sessions, self._streams, follower, self._after)) as sent:
                response = StreamingResponse(sent, media_type="text/event-stream", headers=headers)
                # A reader may disconnect or stop reading at any time.
                with suppress(ConnectionError, TimeoutError, ClientDisconnect):
                    await response(scope, receive, send_within)


async def _send(
    sessions: Sessions, streams: LogStreams, follower: Follower, after: int | None
) -> AsyncGenerator[bytes]:
    deployment_id = follower.deployment_id
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + _LONGEST_SECONDS
    told = ""
    while loop.time() < ends_at and not streams.is_stopping:
        try:
            # To its end, though the reader leaves: a connection that is just being opened would be left behind.
            with CancelScope(shield=True):
                status, lines = await _look(sessions, deployment_id, after)
        except SQLAlchemyError:
            # The reader comes back, and is answered 503 for as long as it takes.
            return
        after = lines[-1].id if lines else after or 0
        events = [_event("line", describe_line(line), line.id) for line in lines]
        if status != told:
            events.append(_event("status", {"deployment_id": deployment_id, "status": status}))
            told = status
        yield b"".join(events) or b": nothing new\n\n"
        if len(lines) == LOG_LINES:
            continue
        if status in FINAL_STATUSES:
            return
        await _wait(streams, follower, (status, after))


async def _wait(streams: LogStreams, follower: Follower, seen: Seen) -> None:
    """Until there is more than this, the process stops, or it has been silent for long."""
    follower.seen = seen
    follower.news.clear()
    if streams.is_stopping:
        return
    try:
        async with asyncio.timeout(_SILENCE_SECONDS):
            await follower.news.wait()
    except TimeoutError:
        return


async def _look(sessions: Sessions, deployment_id: int, after: int | None) -> tuple[str, Sequence[LogLine]]:
    """The status, read first: what is final has no lines that come later."""
    async with sessions() as session:
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


def _event(name: str, document: dict[str, object], number: int | None = None) -> bytes:
    # JSON has no line ends, which would end an event.
    identity = b"" if number is None else f"id: {number}\n".encode()
    return b"event: %s\n%sdata: %s\n\n" % (name.encode(), identity, orjson.dumps(document))
