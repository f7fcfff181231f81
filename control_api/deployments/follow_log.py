"""A deployment's log as server-sent events, live, until the deployment is finished.

Lines are looked for in the database, so any process may write them and any other show them.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence

import orjson
from fastapi import Request
from fastapi.responses import StreamingResponse
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from control_api.database import Sessions
from control_api.deployments.describe import describe_line
from control_api.deployments.operations import LOG_LINES, tail_log
from control_api.deployments.tables import Deployment, DeploymentLine
from pipeline_contracts.deploy_states import FINAL
from pipeline_contracts.errors import Unavailable

_POLL_SECONDS = 0.3
# Proxies close what is silent for long.
_SILENCE_SECONDS = 15.0
# A browser comes back by itself, and its token is looked at again.
_LONGEST_SECONDS = 900.0
_MOST_STREAMS = 100
_EVENT_ID = re.compile("[0-9]{1,18}")


class LogStreams:
    """The live logs that are being sent, so that they stay few and end with the process."""

    def __init__(self) -> None:
        self.open = 0
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """End all of them soon; their readers may come back elsewhere."""
        self._stopping.set()

    async def pause(self, seconds: float) -> bool:
        """Wait; True where the process is to stop."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return False
        return True


def wants_stream(request: Request) -> bool:
    """Whether the caller asks for events: `Accept` names them, and not JSON as well."""
    accepted = request.headers.get("accept", "").lower()
    return "text/event-stream" in accepted and "application/json" not in accepted


def follow(request: Request, deployment_id: int) -> StreamingResponse:
    """All lines behind `Last-Event-ID`, or the last 1,000, and each that is added. Raises `Unavailable` where too
    many are open."""
    streams: LogStreams = request.app.state.log_streams
    if streams.open >= _MOST_STREAMS:
        raise Unavailable("Too many live logs are open here. Ask without the event stream.", retry_after=5)
    given = request.headers.get("last-event-id", "")
    after = int(given) if _EVENT_ID.fullmatch(given) else None
    sent = _send(request.app.state.sessions, streams, deployment_id, after)
    # X-Accel-Buffering: nginx would keep the events back.
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(sent, media_type="text/event-stream", headers=headers)


async def _send(
    sessions: Sessions, streams: LogStreams, deployment_id: int, after: int | None
) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    begun = spoken = loop.time()
    told = ""
    streams.open += 1
    try:
        while True:
            try:
                status, lines = await _look(sessions, deployment_id, after)
            except SQLAlchemyError:
                # The reader comes back, and is answered 503 for as long as it takes.
                return
            events = [_event("line", describe_line(line), line.id) for line in lines]
            after = lines[-1].id if lines else after or 0
            if status != told:
                events.append(_event("status", {"deployment_id": deployment_id, "status": status}))
                told = status
            if not events and loop.time() - spoken > _SILENCE_SECONDS:
                events.append(b": nothing new\n\n")
            if events:
                spoken = loop.time()
                yield b"".join(events)
            if (status in FINAL and len(lines) < LOG_LINES) or loop.time() - begun > _LONGEST_SECONDS:
                return
            if await streams.pause(_POLL_SECONDS):
                return
    finally:
        streams.open -= 1


async def _look(
    sessions: Sessions, deployment_id: int, after: int | None
) -> tuple[str, Sequence[DeploymentLine]]:
    """The status, read first: what is final has no lines that come later."""
    async with sessions() as session:
        status = (
            await session.execute(select(Deployment.status).where(Deployment.id == deployment_id))
        ).scalar_one()
        if after is None:
            return status, (await tail_log(session, deployment_id))[0]
        query = (
            select(DeploymentLine)
            .where(DeploymentLine.deployment_id == deployment_id, DeploymentLine.id > after)
            .order_by(DeploymentLine.id)
            .limit(LOG_LINES)
        )
        return status, (await session.execute(query)).scalars().all()


def _event(name: str, document: dict[str, object], number: int | None = None) -> bytes:
    # JSON has no line ends, which would end an event.
    identity = b"" if number is None else f"id: {number}\n".encode()
    return b"event: %s\n%sdata: %s\n\n" % (name.encode(), identity, orjson.dumps(document))
