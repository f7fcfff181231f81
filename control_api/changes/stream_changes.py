"""Streams the topics that have changed as server-sent events, while the caller may read them."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from datetime import UTC, datetime

import orjson
from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from control_api.changes.account_watch import Follower
from control_api.changes.change_streams import ChangeStreams
from control_api.operations.reader_check import ReaderCheck
from control_domain.changes.topics import Topic
from pipeline_contracts.times import format_time

# A browser reconnects by itself, perhaps to another process.
_MAX_STREAM_SECONDS = 3600.0
# A reader that does not read for this long is disconnected.
_SEND_TIMEOUT_SECONDS = 30.0
_OPENING = b"retry: 2000\n\n"
# A keepalive is an event because pages do not see comments. A page that receives nothing for long reconnects.
_KEEPALIVE = b"event: alive\ndata: {}\n\n"


class ChangeStreamResponse(Response):
    """Takes one of the streams of `ChangeStreams` before it sends the headers, and returns it however the response
    ends. The headers are sent after the first sweep: changes after that are reported."""

    def __init__(self, request: Request, check: ReaderCheck, follower: Follower) -> None:
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
        await _wait(follower, self._check.due_at)
        follower.is_open = True
        yield _OPENING
        while not streams.is_stopping and loop.time() < ends_at:
            if self._check.is_due:
                if not await self._check.may_read():
                    return
                # Proxies close connections that are silent for longer.
                yield _KEEPALIVE
            changed, follower.changed = follower.changed, set()
            if changed:
                yield b"".join(map(_event, sorted(changed)))
            await _wait(follower, self._check.due_at)


async def _wait(follower: Follower, until: float) -> None:
    """Wait until the follower has something to do, or until this time of the loop."""
    with suppress(TimeoutError):
        async with asyncio.timeout_at(until):
            await follower.wake.wait()
    follower.wake.clear()


def _event(topic: Topic) -> bytes:
    document = orjson.dumps({"topic": topic, "at": format_time(datetime.now(UTC))})
    return b"event: change\ndata: %s\n\n" % document
