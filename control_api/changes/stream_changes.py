"""Streams the topics that have changed as server-sent events, while the caller may read them."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from typing import Any

import orjson
from anyio import CancelScope
from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from control_api.changes.account_watch import Follower
from control_api.changes.change_streams import ChangeStreams
from control_domain.changes.topics import Topic
from control_domain.database.engine import Sessions
from pipeline_contracts.errors import Problem
from pipeline_contracts.times import format_time

# How often the caller is checked again. Proxies close connections that are silent for longer.
CHECK_SECONDS = 15.0
# A browser reconnects by itself, perhaps to another process.
_MAX_STREAM_SECONDS = 3600.0
# A reader that does not read for this long is disconnected.
_SEND_TIMEOUT_SECONDS = 30.0
_OPENING = b"retry: 2000\n\n"
_KEEPALIVE = b": nothing new\n\n"

CheckCaller = Callable[[Request, Any], Awaitable[Any]]
"""Authenticates the caller of the request with a session. Raises a `Problem` if the caller may not read any more."""


class ChangeStreamResponse(Response):
    """Takes one of the streams of `ChangeStreams` before it sends the headers, and returns it however the response
    ends. The headers are sent after the first sweep: what changes from then on is told."""

    def __init__(self, request: Request, check: CheckCaller, follower: Follower) -> None:
        super().__init__()
        self._request = request
        self._check = check
        self._follower = follower

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        streams: ChangeStreams = self._request.app.state.change_streams
        # X-Accel-Buffering: nginx would buffer the events.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

        async def send_in_time(message: Message) -> None:
            # Without a timeout, a reader that stops reading without disconnecting would occupy a stream forever.
            async with asyncio.timeout(_SEND_TIMEOUT_SECONDS):
                await send(message)

        with streams.following(self._follower):
            async with aclosing(self._events(streams, self._follower)) as events:
                response = StreamingResponse(events, media_type="text/event-stream", headers=headers)
                # A reader may disconnect or stop reading at any time.
                with suppress(ConnectionError, TimeoutError, ClientDisconnect):
                    await response(scope, receive, send_in_time)

    async def _events(self, streams: ChangeStreams, follower: Follower) -> AsyncGenerator[bytes]:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + _MAX_STREAM_SECONDS
        check_at = loop.time() + CHECK_SECONDS
        await _wait(follower, check_at)
        yield _OPENING
        while not streams.is_stopping and loop.time() < ends_at:
            if loop.time() >= check_at:
                if not await self._may_read():
                    return
                check_at = loop.time() + CHECK_SECONDS
                yield _KEEPALIVE
            changed, follower.changed = follower.changed, set()
            if changed:
                yield b"".join(map(_event, sorted(changed)))
            await _wait(follower, check_at)

    async def _may_read(self) -> bool:
        sessions: Sessions = self._request.app.state.sessions
        try:
            # Shielded from the cancellation when the reader leaves: it would leak a database connection that is just
            # being opened.
            with CancelScope(shield=True):
                async with sessions() as session:
                    await self._check(self._request, session)
                    await session.commit()
        except (Problem, SQLAlchemyError):
            # The reader reconnects, and gets the reason.
            return False
        return True


async def _wait(follower: Follower, until: float) -> None:
    """Wait until the follower has something to do, or until this time of the loop."""
    with suppress(TimeoutError):
        async with asyncio.timeout_at(until):
            await follower.wake.wait()
    follower.wake.clear()


def _event(topic: Topic) -> bytes:
    document = orjson.dumps({"topic": topic, "at": format_time(datetime.now(UTC))})
    return b"event: change\ndata: %s\n\n" % document
