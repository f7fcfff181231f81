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
from control_api.deployments.log_streams import Follower, LogStreams
from control_api.deployments.operations import LOG_LINES, tail_log
from control_api.deployments.tables import Deployment, DeploymentLine
from pipeline_contracts.deploy_states import FINAL

# Proxies close what is silent for long.
_SILENCE_SECONDS = 15.0
# A browser comes back by itself, and its token is looked at again.
_LONGEST_SECONDS = 900.0
_EVENT_ID = re.compile("[0-9]{1,18}")


def wants_stream(request: Request) -> bool:
    """Whether the caller asks for events: `Accept` names them, and not JSON as well."""
    accepted = request.headers.get("accept", "").lower()
    return "text/event-stream" in accepted and "application/json" not in accepted


def follow(request: Request, deployment_id: int) -> StreamingResponse:
    """All lines behind `Last-Event-ID`, or the last 1,000, and each that is added. Raises `Unavailable` where too
    many are open."""
    streams: LogStreams = request.app.state.log_streams
    streams.check_room()
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
    ends_at = loop.time() + _LONGEST_SECONDS
    told = ""
    with streams.following(deployment_id) as follower:
        while loop.time() < ends_at and not streams.is_stopping:
            try:
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
            if status in FINAL:
                return
            await _wait(follower, (status, after))


async def _wait(follower: Follower, seen: tuple[str, int]) -> None:
    """Until there is more than this, or it has been silent for long."""
    follower.seen = seen
    follower.news.clear()
    try:
        async with asyncio.timeout(_SILENCE_SECONDS):
            await follower.news.wait()
    except TimeoutError:
        return


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
